{{/* The name of the objects: the release's, with the chart's name unless it is in there. */}}
{{- define "osprey.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "osprey.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "osprey.labels" -}}
{{ include "osprey.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "osprey.image" -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}

{{/* The file of --config. Keys that the chart sets override .Values.options. */}}
{{- define "osprey.config" -}}
{{- range $name, $value := .Values.options }}
{{- if not (has $name (list "host" "port" "model" "served-model-name" "shutdown-timeout" "api-key-file" "device" "tensor-parallel-size")) }}
{{ $name }}: {{ $value | toJson }}
{{- end }}
{{- end }}
host: 0.0.0.0
port: 8000
device: {{ ternary "cuda" "cpu" (gt (int .Values.gpu.count) 0) }}
shutdown-timeout: {{ int .Values.shutdownTimeoutSeconds }}
{{- if gt (int .Values.ranks.size) 1 }}
tensor-parallel-size: {{ int .Values.ranks.size }}
{{- end }}
{{- with .Values.model }}
model: {{ . | quote }}
{{- end }}
{{- with .Values.servedModelName }}
served-model-name: {{ . | quote }}
{{- end }}
{{- if .Values.apiKeys.existingSecret }}
api-key-file: /run/secrets/osprey/{{ .Values.apiKeys.key }}
{{- end }}
{{- end -}}

{{- define "osprey.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The LeaderWorkerSet. Its operator makes a headless service of the same name, so it is not the
name of the service of the API; its pods' names are longer by six characters and a hash. */}}
{{- define "osprey.ranks" -}}
{{- printf "%s-ranks" (include "osprey.name" . | trunc 40 | trimSuffix "-") -}}
{{- end -}}

{{/* The claim that all pods mount; "": each has its own, or none. */}}
{{- define "osprey.claim" -}}
{{- if .Values.persistence.existingClaim -}}
{{- .Values.persistence.existingClaim -}}
{{- else if and (gt (int .Values.ranks.size) 1) .Values.persistence.enabled -}}
{{- include "osprey.name" . }}-models
{{- end -}}
{{- end -}}

{{/* The template of a pod. .root: the chart's context. .role: "server", a replica by itself; "leader"
and "worker", rank 0 and the others of a LeaderWorkerSet. */}}
{{- define "osprey.pod" -}}
{{- $root := .root -}}
{{- $claim := include "osprey.claim" $root -}}
{{- $keys := ternary "" $root.Values.apiKeys.existingSecret (eq .role "worker") -}}
metadata:
  labels:
    {{- include "osprey.labels" $root | nindent 4 }}
    {{- with $root.Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    checksum/config: {{ include "osprey.config" $root | sha256sum }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  automountServiceAccountToken: false
  # preStop, the drain of --shutdown-timeout, and a margin.{{ if eq .role "worker" }} A worker waits for its leader.{{ end }}
  terminationGracePeriodSeconds: {{ add (int $root.Values.shutdownTimeoutSeconds) 20 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 10001
    runAsGroup: 10001
    fsGroup: 10001
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  {{- with $root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.gpu.runtimeClassName }}
  runtimeClassName: {{ . }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if ne .role "server" }}
  topologySpreadConstraints: # ranks that share a node share its memory bandwidth
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "osprey.selector" $root | nindent 10 }}
  {{- end }}
  {{- if $root.Values.model }}
  initContainers:
    - name: pull
      image: {{ include "osprey.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [pull, {{ $root.Values.model | quote }}]
      {{- with $root.Values.hubToken }}
      {{- if .existingSecret }}
      env:
        - name: HF_TOKEN
          valueFrom:
            secretKeyRef:
              name: {{ .existingSecret }}
              key: {{ .key }}
      {{- end }}
      {{- end }}
      securityContext:
        {{- include "osprey.security" $root | nindent 8 }}
      resources:
        requests:
          cpu: 500m
          memory: 256Mi
        limits:
          memory: 4Gi
      volumeMounts:
        - name: models
          mountPath: /var/lib/osprey/huggingface
        - name: tmp
          mountPath: /tmp
  {{- end }}
  containers:
    - name: osprey
      image: {{ include "osprey.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: [serve, --config, /etc/osprey/serve.yaml]
      {{- if ne .role "server" }}
      env:
        - name: OSPREY_RANK_TOKEN
          valueFrom:
            secretKeyRef:
              name: {{ $root.Values.ranks.tokenSecret.existingSecret }}
              key: {{ $root.Values.ranks.tokenSecret.key }}
        {{- if eq .role "leader" }}
        # Its own name may not be in DNS yet. The others find it by LWS_LEADER_ADDRESS.
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: OSPREY_RANK_ADDRESS
          value: "$(POD_IP):29500"
        {{- end }}
      {{- end }}
      {{- if ne .role "worker" }}
      ports:
        - name: http
          containerPort: 8000
        {{- if eq .role "leader" }}
        - name: ranks
          containerPort: 29500
        {{- end }}
      # /health is 503 while the model loads.
      startupProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: {{ mul (int $root.Values.startupMinutes) 12 }}
      # One 503 takes the pod out of the service: it drains, or its engine is not ok.
      readinessProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 5
        timeoutSeconds: 3
        failureThreshold: 1
      # A worker process that fails is restarted by its server, which can take minutes for a
      # large model. Only what lasts longer restarts the container.
      livenessProbe:
        httpGet: {path: /health, port: http}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 30
      lifecycle:
        preStop: # until the endpoints are updated, new requests still come
          exec:
            command: [sleep, "5"]
      {{- end }}
      securityContext:
        {{- include "osprey.security" $root | nindent 8 }}
      resources:
        {{- $resources := deepCopy $root.Values.resources }}
        {{- if gt (int $root.Values.gpu.count) 0 }}
        {{- $_ := set $resources "limits" (merge (dict "nvidia.com/gpu" (int $root.Values.gpu.count)) (default dict $resources.limits)) }}
        {{- end }}
        {{- toYaml $resources | nindent 8 }}
      volumeMounts:
        - name: config
          mountPath: /etc/osprey
          readOnly: true
        - name: models
          mountPath: /var/lib/osprey/huggingface
        - name: cache
          mountPath: /var/cache/osprey
        - name: tmp
          mountPath: /tmp
        {{- if $keys }}
        - name: api-keys
          mountPath: /run/secrets/osprey
          readOnly: true
        {{- end }}
  volumes:
    - name: config
      configMap:
        name: {{ include "osprey.name" $root }}
    - name: cache
      emptyDir: {}
    - name: tmp
      emptyDir: {}
    {{- with $keys }}
    - name: api-keys
      secret:
        secretName: {{ . }}
        defaultMode: 0440
    {{- end }}
    {{- if $claim }}
    - name: models
      persistentVolumeClaim:
        claimName: {{ $claim }}
    {{- else if not $root.Values.persistence.enabled }}
    - name: models
      emptyDir: {}
    {{- end }}
{{- end -}}
