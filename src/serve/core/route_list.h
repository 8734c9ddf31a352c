/* The list of all routes, written once. Routing, the Allow field of status 405, the index page,
 * --help and /openapi.json are made from it. */
#ifndef SERVE_CORE_ROUTE_LIST_H
#define SERVE_CORE_ROUTE_LIST_H

/* X(method, path, handler, description). A * in a path stands for a name; at the end of the path
 * the name may contain slashes. Of two routes that match, the first one is used. A route below /v1
 * is served without that prefix as well, unless another route has that path. */
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
    X("POST", "/v1/messages", route_messages, "the next message of a conversation (Anthropic)")    \
    X("POST", "/v1/messages/count_tokens", route_count_tokens, "the length of a prompt")           \
    X("POST", "/v1/responses", route_responses, "the next items of a conversation")                \
    X("POST", "/v1/responses/input_tokens", route_response_input_tokens,                           \
      "the number of tokens of a response's prompt")                                               \
    X("POST", "/v1/responses/compact", route_response_compact,                                     \
      "always 400, with the reason: conversations are not compacted")                              \
    X("POST", "/v1/responses/*/cancel", route_response_cancel, "cancels a background response")    \
    X("GET", "/v1/responses/*/input_items", route_response_items,                                  \
      "the input items of a stored response")                                                      \
    X("GET", "/v1/responses/*", route_response, "a stored response")                               \
    X("DELETE", "/v1/responses/*", route_response_delete, "deletes a stored response")             \
    X("POST", "/v1/conversations", route_conversation_create, "creates a conversation")            \
    X("POST", "/v1/conversations/*/items", route_conversation_items_add,                           \
      "adds items to a conversation")                                                              \
    X("GET", "/v1/conversations/*/items", route_conversation_items, "the items of a conversation") \
    X("POST", "/v1/conversations/*", route_conversation_update,                                    \
      "changes the metadata of a conversation")                                                    \
    X("GET", "/v1/conversations/*", route_conversation,                                            \
      "a conversation, or one of its items: ID/items/ITEM")                                        \
    X("DELETE", "/v1/conversations/*", route_conversation_delete,                                  \
      "deletes a conversation, or one of its items: ID/items/ITEM")                                \
    X("POST", "/api/chat", route_ollama_chat, "Ollama: the next message of a conversation")        \
    X("POST", "/api/generate", route_ollama_generate, "Ollama: the answer to one prompt")          \
    X("GET", "/api/tags", route_ollama_tags, "Ollama: the model under each of its names")          \
    X("POST", "/api/show", route_ollama_show, "Ollama: details of a model")                        \
    X("GET", "/api/ps", route_ollama_ps, "Ollama: the loaded model")                               \
    X("GET", "/api/version", route_ollama_version, "Ollama: the version whose API is followed")    \
    X("POST", "/completion", route_llama_completion, "llama-server: the continuation of a prompt") \
    X("POST", "/completions", route_llama_completions,                                             \
      "llama-server's form, or with `model` and no n_predict that of /v1/completions")             \
    X("POST", "/apply-template", route_llama_template,                                             \
      "llama-server: a conversation as the text of its prompt")                                    \
    X("GET", "/props", route_llama_props, "llama-server: properties of the server")                \
    X("GET", "/slots", route_llama_slots, "llama-server: the running requests")                    \
    X("GET", "/v1/health", route_health, "the same as /health")                                    \
    X("GET", "/ping", route_health, "the same as /health")

/* Routes of other servers that this server cannot have. X(path, reason). Requests for them get
 * status 404 with the reason. Of * and /v1 the same holds as above. */
#define REFUSED_LIST(X)                                                                            \
    X("/v1/embeddings", NO_EMBEDDINGS)                                                             \
    X("/embedding", NO_EMBEDDINGS)                                                                 \
    X("/api/embed", NO_EMBEDDINGS)                                                                 \
    X("/api/embeddings", NO_EMBEDDINGS)                                                            \
    X("/v1/rerank", "gpt-oss models do not rank documents")                                        \
    X("/v1/reranking", "gpt-oss models do not rank documents")                                     \
    X("/infill", "gpt-oss models cannot fill in the middle of a text")                             \
    X("/lora-adapters", "LoRA adapters are not supported")                                         \
    X("/slots/*", "the prefix cache is shared by all requests, and cannot be saved or restored")   \
    X("/models/load", ONE_MODEL)                                                                   \
    X("/models/unload", ONE_MODEL)                                                                 \
    X("/api/pull", ONE_MODEL)                                                                      \
    X("/api/push", ONE_MODEL)                                                                      \
    X("/api/create", ONE_MODEL)                                                                    \
    X("/api/copy", ONE_MODEL)                                                                      \
    X("/api/delete", ONE_MODEL)                                                                    \
    X("/api/blobs/*", ONE_MODEL)                                                                   \
    X("/v1/chat/completions/control", "reasoning cannot be ended early; use reasoning_effort")     \
    X("/v1/stream/*", "a stream cannot be resumed; send the request again")                        \
    X("/v1/streams/*", "a stream cannot be resumed; send the request again")                       \
    X("/tools", "the server runs no tools; clients run the calls that the model makes")            \
    X("/v1/audio/*", "gpt-oss models read and write text only")                                    \
    X("/v1/images/*", "gpt-oss models read and write text only")

#define NO_EMBEDDINGS "gpt-oss models have no embeddings"
#define ONE_MODEL                                                                                  \
    "the server serves the model that it was started with, and neither downloads nor changes "     \
    "models; use osprey serve MODEL"

#endif
