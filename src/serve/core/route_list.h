/* The list of all routes, written once. Routing, the Allow field of status 405, the index page,
 * --help and /openapi.json are made from it. */
#ifndef SERVE_CORE_ROUTE_LIST_H
#define SERVE_CORE_ROUTE_LIST_H

/* X(method, path, handler, description). A * in a path stands for a name; at the end of the path
 * the name may contain slashes. Of two routes that match, the first one is used. */
#define ROUTE_LIST(X)                                                                              \
    X("GET", "/", route_index, "this list; a chat page for browsers")                              \
    X("GET", "/health", route_health, "200 while requests are accepted, else 503 with the reason") \
    X("GET", "/metrics", route_metrics, "metrics in Prometheus text format")                       \
    X("GET", "/v1/models", route_models, "the model under each of its names")                      \
    X("GET", "/v1/models/*", route_model, "one model by name")                                     \
    X("GET", "/openapi.json", route_openapi, "the OpenAPI document of this server")                \
    X("GET", "/version", route_version, "the version of osprey")                                   \
    X("POST", "/tokenize", route_tokenize, "text or a conversation to token ids")                  \
    X("POST", "/detokenize", route_detokenize, "token ids to text")                                \
    X("POST", "/v1/chat/completions", route_chat, "the next message of a conversation")            \
    X("POST", "/v1/completions", route_completions, "the continuation of a prompt")                \
    X("POST", "/v1/responses", route_responses, "the next items of a conversation")                \
    X("POST", "/v1/responses/*/cancel", route_response_cancel,                                     \
      "always 400: background responses are not supported")                                        \
    X("GET", "/v1/responses/*/input_items", route_response_items,                                  \
      "the input items of a stored response")                                                      \
    X("GET", "/v1/responses/*", route_response, "a stored response")                               \
    X("DELETE", "/v1/responses/*", route_response_delete, "deletes a stored response")

#endif
