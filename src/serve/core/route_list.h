/* The list of what is answered, written once: routing, 405's Allow, the index page, --help and
 * /openapi.json come from it. */
#ifndef SERVE_CORE_ROUTE_LIST_H
#define SERVE_CORE_ROUTE_LIST_H

/* X(method, path, handler, what it gives); * in a path takes a name there, at its end with slashes. Of two that fit the
 * first is meant. */
#define ROUTE_LIST(X)                                                                              \
    X("GET", "/", route_index, "this list; for browsers, a chat")                                  \
    X("GET", "/health", route_health, "200 while requests are answered, else 503 and why")         \
    X("GET", "/metrics", route_metrics, "figures in Prometheus' text format")                      \
    X("GET", "/v1/models", route_models, "the model")                                              \
    X("GET", "/v1/models/*", route_model, "the model by its name")                                 \
    X("GET", "/openapi.json", route_openapi, "what is served, as an OpenAPI document")             \
    X("GET", "/version", route_version, "the version of osprey")                                   \
    X("POST", "/tokenize", route_tokenize, "text or a conversation as token ids")                  \
    X("POST", "/detokenize", route_detokenize, "token ids as text")                                \
    X("POST", "/v1/chat/completions", route_chat, "a conversation's next message")                 \
    X("POST", "/v1/completions", route_completions, "a prompt's continuation")                     \
    X("POST", "/v1/responses", route_responses, "the same as a response of items")                 \
    X("POST", "/v1/responses/*/cancel", route_response_cancel,                                     \
      "400: background responses are not supported")                                               \
    X("GET", "/v1/responses/*/input_items", route_response_items,                                  \
      "what a kept response was given")                                                            \
    X("GET", "/v1/responses/*", route_response, "a response that is kept")                         \
    X("DELETE", "/v1/responses/*", route_response_delete, "forgets it")

#endif
