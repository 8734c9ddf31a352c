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
{{- if not (has $name (list "host" "port" "model" "served-model-name" "shutdown-timeout" "api-key-file" "device")) }}
{{ $name }}: {{ $value | toJson }}
{{- end }}
{{- end }}
host: 0.0.0.0
port: 8000
device: {{ ternary "cuda" "cpu" (gt (int .Values.gpu.count) 0) }}
shutdown-timeout: {{ int .Values.shutdownTimeoutSeconds }}
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
