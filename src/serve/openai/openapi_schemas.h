/* The schemas of answers, with ' for ". X(name, schema) */
#ifndef SERVE_OPENAI_OPENAPI_SCHEMAS_H
#define SERVE_OPENAI_OPENAPI_SCHEMAS_H

#define OPENAPI_COUNT        "{'type':'integer','minimum':0}"
#define OPENAPI_COUNTS       "{'type':'array','items':" OPENAPI_COUNT "}"
#define OPENAPI_TEXT_OR_NULL "{'type':['string','null']}"
#define OPENAPI_STOP_REASON  "'stop_reason':{'type':['string','integer','null']},"
/* For each prompt token: an object from token ids to logprobs, of the token itself and of the
 * alternatives at its position. */
#define OPENAPI_PROMPT_LOGPROBS                                                                    \
    "'prompt_logprobs':{'type':'array','items':{'type':['object','null'],"                         \
    "'additionalProperties':{'type':'object','properties':{'logprob':{'type':'number'},"           \
    "'rank':{'type':['integer','null'],'minimum':1},'decoded_token':{'type':'string'}},"           \
    "'required':['logprob','rank','decoded_token']}}},"

/* Members common to all answers of generation requests. */
#define OPENAPI_HEAD(object)                                                                       \
    "'id':{'type':'string'},'object':{'const':'" object "'},'created':{'type':'integer'},"         \
    "'model':{'type':'string'},'system_fingerprint':{'type':'string'},"                            \
    "'timings':{'$ref':'#/components/schemas/Timings'},"
#define OPENAPI_USAGE "'usage':{'$ref':'#/components/schemas/Usage'}"
#define OPENAPI_CHUNK_USAGE                                                                        \
    "'usage':{'anyOf':[{'$ref':'#/components/schemas/Usage'},{'type':'null'}]}"

/* Members of the lines of Ollama's API. */
#define OPENAPI_OLLAMA_END                                                                         \
    "'done':{'type':'boolean'},'done_reason':{'enum':['stop','length','load','unload']},"          \
    "'logprobs':{'type':'array'},'total_duration':" OPENAPI_COUNT                                  \
    ",'load_duration':" OPENAPI_COUNT ",'prompt_eval_count':" OPENAPI_COUNT                        \
    ",'prompt_eval_duration':" OPENAPI_COUNT ",'eval_count':" OPENAPI_COUNT                        \
    ",'eval_duration':" OPENAPI_COUNT

#define OPENAPI_SCHEMAS(X)                                                                         \
    X("Error",                                                                                     \
      "{'type':'object','properties':{'error':{'type':'object','properties':{"                     \
      "'message':{'type':'string'},'type':{'enum':['invalid_request_error','rate_limit_error',"    \
      "'server_error']},'param':" OPENAPI_TEXT_OR_NULL ",'code':" OPENAPI_TEXT_OR_NULL "},"        \
      "'required':['message','type','param','code']}},'required':['error']}")                      \
    X("OllamaError",                                                                               \
      "{'type':'object','properties':{'error':{'type':'string'}},'required':['error']}")           \
    X("OllamaChat",                                                                                \
      "{'type':'object','properties':{'model':{'type':'string'},'created_at':{'type':'string'},"   \
      "'message':{'type':'object','properties':{'role':{'const':'assistant'},'content':{'type':"   \
      "'string'},'thinking':{'type':'string'},'tool_calls':{'type':'array'}},"                     \
      "'required':['role','content']}," OPENAPI_OLLAMA_END "},'required':['message','done']}")     \
    X("OllamaGenerate",                                                                            \
      "{'type':'object','properties':{'model':{'type':'string'},'created_at':{'type':'string'},"   \
      "'response':{'type':'string'},'thinking':{'type':'string'}," OPENAPI_OLLAMA_END "},"         \
      "'required':['response','done']}")                                                           \
    X("OllamaModels",                                                                              \
      "{'type':'object','properties':{'models':{'type':'array','items':{'type':'object',"          \
      "'properties':{'name':{'type':'string'},'model':{'type':'string'},'size':" OPENAPI_COUNT     \
      ",'digest':{'type':'string'},'details':{'type':'object'}},"                                  \
      "'required':['name','model','size','digest','details']}}},'required':['models']}")           \
    X("OllamaShow",                                                                                \
      "{'type':'object','properties':{'details':{'type':'object'},'model_info':{'type':"           \
      "'object'},'capabilities':{'type':'array','items':{'type':'string'}}},"                      \
      "'required':['details','model_info','capabilities']}")                                       \
    X("LlamaCompletion",                                                                           \
      "{'type':'object','properties':{'index':" OPENAPI_COUNT                                      \
      ",'content':{'type':'string'},'tokens':" OPENAPI_COUNTS                                      \
      ",'stop':{'type':'boolean'},'stop_type':{'enum':['eos','limit','word']},"                    \
      "'stopping_word':{'type':'string'},'tokens_predicted':" OPENAPI_COUNT                        \
      ",'tokens_evaluated':" OPENAPI_COUNT ",'generation_settings':{'type':'object'},'timings':"   \
      "{'$ref':'#/components/schemas/Timings'}},'required':['index','content','stop']}")           \
    X("LlamaCompletions",                                                                          \
      "{'anyOf':[{'$ref':'#/components/schemas/LlamaCompletion'},{'$ref':'#/components/schemas/"   \
      "Completion'},{'type':'array','items':{'$ref':'#/components/schemas/LlamaCompletion'}}]}")   \
    X("LlamaPrompt",                                                                               \
      "{'type':'object','properties':{'prompt':{'type':'string'}},'required':['prompt']}")         \
    X("LlamaProps",                                                                                \
      "{'type':'object','properties':{'default_generation_settings':{'type':'object'},"            \
      "'total_slots':" OPENAPI_COUNT ",'model_path':{'type':'string'},'modalities':{'type':"       \
      "'object'}},'required':['default_generation_settings','total_slots','model_path']}")         \
    X("LlamaSlots",                                                                                \
      "{'type':'array','items':{'type':'object','properties':{'id':" OPENAPI_COUNT                 \
      ",'n_ctx':" OPENAPI_COUNT ",'is_processing':{'type':'boolean'},'next_token':{'type':"        \
      "'object'}},'required':['id','n_ctx','is_processing','next_token']}}")                       \
    X("Usage",                                                                                     \
      "{'type':'object','properties':{'prompt_tokens':" OPENAPI_COUNT                              \
      ",'completion_tokens':" OPENAPI_COUNT ",'total_tokens':" OPENAPI_COUNT                       \
      ",'prompt_tokens_details':{'type':'object','properties':{'cached_tokens':" OPENAPI_COUNT     \
      "},'required':['cached_tokens']},'completion_tokens_details':{'type':'object',"              \
      "'properties':{'reasoning_tokens':" OPENAPI_COUNT                                            \
      ",'accepted_prediction_tokens':" OPENAPI_COUNT                                               \
      ",'rejected_prediction_tokens':" OPENAPI_COUNT "},'required':['reasoning_tokens']}},"        \
      "'required':['prompt_tokens','completion_tokens','total_tokens','prompt_tokens_details',"    \
      "'completion_tokens_details']}")                                                             \
    X("Timings",                                                                                   \
      "{'type':'object','properties':{'cache_n':" OPENAPI_COUNT ",'prompt_n':" OPENAPI_COUNT       \
      ",'prompt_ms':{'type':'number'},'prompt_per_second':{'type':'number'},"                      \
      "'predicted_n':" OPENAPI_COUNT                                                               \
      ",'predicted_ms':{'type':'number'},'predicted_per_second':{'type':'number'}},"               \
      "'required':['cache_n','prompt_n','prompt_ms','prompt_per_second','predicted_n',"            \
      "'predicted_ms','predicted_per_second']}")                                                   \
    X("ToolCall",                                                                                  \
      "{'type':'object','properties':{'index':" OPENAPI_COUNT                                      \
      ",'id':{'type':'string'},'type':{'enum':['function','custom']},'function':{'type':'object'," \
      "'properties':{'name':{'type':'string'},'arguments':{'type':'string'}}},"                    \
      "'custom':{'type':'object','properties':{'name':{'type':'string'},'input':{'type':"          \
      "'string'}}}},'anyOf':[{'required':['function']},{'required':['custom']}]}")                 \
    X("ChatLogprobs",                                                                              \
      "{'type':['object','null'],'properties':{'content':{'type':'array','items':{'type':"         \
      "'object','properties':{'token':{'type':'string'},'logprob':{'type':'number'},"              \
      "'bytes':" OPENAPI_COUNTS ",'top_logprobs':{'type':'array'}},"                               \
      "'required':['token','logprob','bytes','top_logprobs']}},'refusal':{'type':'null'}}}")       \
    X("TextLogprobs",                                                                              \
      "{'type':['object','null'],'properties':{'tokens':{'type':'array','items':"                  \
      "{'type':'string'}},'token_logprobs':{'type':'array','items':{'type':['number','null']}},"   \
      "'top_logprobs':{'type':'array','items':{'type':['object','null']}},'text_offset'"           \
      ":" OPENAPI_COUNTS "},'required':['tokens','token_logprobs','top_logprobs','text_offset']}") \
    X("ChatMessage",                                                                               \
      "{'type':'object','properties':{'role':{'const':'assistant'},'content'"                      \
      ":" OPENAPI_TEXT_OR_NULL                                                                     \
      ",'refusal':{'type':'null'},'reasoning':{'type':'string'},'reasoning_content':{'type':"      \
      "'string'},'tool_calls':{'type':'array','items':{'$ref':'#/components/schemas/"              \
      "ToolCall'}}}}")                                                                             \
    X("ChatCompletion",                                                                            \
      "{'type':'object','properties':{" OPENAPI_HEAD("chat.completion") OPENAPI_PROMPT_LOGPROBS    \
      "'prompt_token_ids':" OPENAPI_COUNTS ",'choices':{'type':'array','items':{'type':'object',"  \
      "'properties':{'index':" OPENAPI_COUNT ",'message':{'$ref':'#/components/schemas/"           \
      "ChatMessage'},'logprobs':{'$ref':'#/components/schemas/"                                    \
      "ChatLogprobs'}," OPENAPI_STOP_REASON                                                        \
      "'finish_reason':{'enum':['stop','length','tool_calls']},'token_ids'"                        \
      ":" OPENAPI_COUNTS "},"                                                                      \
      "'required':['index','message','logprobs','finish_reason']}}"                                \
      "," OPENAPI_USAGE "},"                                                                       \
      "'required':['id','object','created','model','choices','usage','"                            \
      "timings']}")                                                                                \
    X("ChatCompletionChunk",                                                                       \
      "{'type':'object','properties':{" OPENAPI_HEAD(                                              \
          "chat.completion.chunk") "'prompt_token_ids':" OPENAPI_COUNTS                            \
                                   ",'choices':{'type':'array','items':{'type':'object',"          \
                                   "'properties':{'index':" OPENAPI_COUNT                          \
                                   ",'delta':{'$ref':'#/components/schemas/"                       \
                                   "ChatMessage'},'logprobs':{'$ref':'#/components/schemas/"       \
                                   "ChatLogprobs'}," OPENAPI_STOP_REASON                           \
                                   "'finish_reason':{'enum':['stop','length','tool_calls',null]}," \
                                   "'token_ids':" OPENAPI_COUNTS                                   \
                                   "},'required':['index','delta','logprobs','finish_reason']}}"   \
                                   "," OPENAPI_CHUNK_USAGE "},"                                    \
                                   "'required':['id','object','created','model','choices']}")      \
    X("TextChoice",                                                                                \
      "{'type':'object','properties':{'index':" OPENAPI_COUNT ",'text':{'type':'string'},"         \
      "'logprobs':{'$ref':'#/components/schemas/TextLogprobs'}," OPENAPI_STOP_REASON               \
          OPENAPI_PROMPT_LOGPROBS                                                                  \
      "'finish_reason':{'enum':['stop','length',null]},'token_ids':" OPENAPI_COUNTS                \
      ",'prompt_token_ids':" OPENAPI_COUNTS "},'required':['index','text','logprobs',"             \
      "'finish_reason']}")                                                                         \
    X("Completion", "{'type':'object','properties':{" OPENAPI_HEAD(                                \
                        "text_completion") "'choices':{'type':'array','items':{'$ref':'#/"         \
                                           "components/schemas/TextChoice'}}," OPENAPI_USAGE       \
                                           "},'required':['id','object','created','model','"       \
                                           "choices','usage','timings']}")                         \
    X("CompletionChunk",                                                                           \
      "{'type':'object','properties':{" OPENAPI_HEAD(                                              \
          "text_completion") "'choices':{'type':'array','items':{'$ref':'#/components/schemas/"    \
                             "TextChoice'}}," OPENAPI_CHUNK_USAGE                                  \
                             "},'required':['id','object','created','model','choices']}")          \
    X("OpenaiModel",                                                                               \
      "{'type':'object','properties':{'id':{'type':'string'},'object':{'const':'model'},"          \
      "'created':{'type':'integer'},'owned_by':{'type':'string'},'root':{'type':'string'},"        \
      "'max_model_len':" OPENAPI_COUNT "},'required':['id','object','created','owned_by']}")       \
    X("AnthropicModel",                                                                            \
      "{'type':'object','description':'With the header anthropic-version.','properties':{"         \
      "'type':{'const':'model'},'id':{'type':'string'},'display_name':{'type':'string'},"          \
      "'created_at':{'type':'string'},'lifecycle':{'const':'active'},"                             \
      "'max_input_tokens':" OPENAPI_COUNT ",'max_tokens':" OPENAPI_COUNT "},"                      \
      "'required':['type','id','display_name','created_at','lifecycle']}")                         \
    X("Model", "{'anyOf':[{'$ref':'#/components/schemas/OpenaiModel'},"                            \
               "{'$ref':'#/components/schemas/AnthropicModel'}]}")                                 \
    X("Models",                                                                                    \
      "{'type':'object','properties':{'object':{'const':'list'},'data':{'type':'array','items':"   \
      "{'$ref':'#/components/schemas/Model'}},'has_more':{'type':'boolean'},"                      \
      "'first_id':{'type':'string'},'last_id':{'type':'string'}},'required':['data']}")            \
    X("Message",                                                                                   \
      "{'type':'object','properties':{'id':{'type':'string'},'type':{'const':'message'},"          \
      "'role':{'const':'assistant'},'model':{'type':'string'},'content':{'type':'array','items':{" \
      "'type':'object','properties':{'type':{'enum':['thinking','text','tool_use']},"              \
      "'thinking':{'type':'string'},'signature':{'type':'string'},'text':{'type':'string'},"       \
      "'id':{'type':'string'},'name':{'type':'string'},'input':{'type':'object'}},"                \
      "'required':['type']}},'stop_reason':{'enum':['end_turn','max_tokens','stop_sequence',"      \
      "'tool_use','model_context_window_exceeded',null]},'stop_sequence':" OPENAPI_TEXT_OR_NULL    \
      ",'usage':{'type':'object','properties':{'input_tokens':" OPENAPI_COUNT                      \
      ",'cache_creation_input_tokens':" OPENAPI_COUNT ",'cache_read_input_tokens':" OPENAPI_COUNT  \
      ",'output_tokens':" OPENAPI_COUNT "},"                                                       \
      "'required':['input_tokens','output_tokens']}},"                                             \
      "'required':['id','type','role','model','content','stop_reason','stop_sequence','usage']}")  \
    X("MessageEvent",                                                                              \
      "{'type':'object','properties':{'type':{'enum':['message_start','content_block_start',"      \
      "'content_block_delta','content_block_stop','message_delta','message_stop','ping',"          \
      "'error']}},'required':['type']}")                                                           \
    X("MessageTokens", "{'type':'object','properties':{'input_tokens':" OPENAPI_COUNT "},"         \
                       "'required':['input_tokens']}")                                             \
    X("MessageError",                                                                              \
      "{'type':'object','properties':{'type':{'const':'error'},'error':{'type':'object',"          \
      "'properties':{'type':{'enum':['invalid_request_error','authentication_error',"              \
      "'permission_error','not_found_error','request_too_large','rate_limit_error',"               \
      "'timeout_error','api_error','overloaded_error']},'message':{'type':'string'}},"             \
      "'required':['type','message']},'request_id':" OPENAPI_TEXT_OR_NULL "},"                     \
      "'required':['type','error']}")                                                              \
    X("Health",                                                                                    \
      "{'type':'object','properties':{'status':{'enum':['ok','loading','draining','wedged',"       \
      "'restarting','dead']},'reason':" OPENAPI_TEXT_OR_NULL "},'required':['status']}")           \
    X("Version",                                                                                   \
      "{'type':'object','properties':{'version':{'type':'string'}},'required':['version']}")       \
    X("Tokens",                                                                                    \
      "{'type':'object','properties':{'count':" OPENAPI_COUNT ",'max_model_len':" OPENAPI_COUNT    \
      ",'tokens':{'type':'array','items':{'anyOf':[" OPENAPI_COUNT ",{'type':'object'}]}},"        \
      "'token_strs':{'type':'array','items':{'type':'string'}}},"                                  \
      "'required':['count','max_model_len','tokens']}")                                            \
    X("Text",                                                                                      \
      "{'type':'object','properties':{'prompt':{'type':'string'},'content':{'type':'string'}},"    \
      "'required':['prompt','content']}")                                                          \
    X("Response",                                                                                  \
      "{'type':'object','properties':{'id':{'type':'string'},'object':{'const':'response'},'"      \
      "created_at':{'type':'number'},'status':{'enum':['completed','incomplete','queued','"        \
      "in_progress','failed','cancelled']},'model':{'type':'string'},'output':{'type':'array','"   \
      "items':{'type':'object','"                                                                  \
      "properties':{'type':{'type':'string'},'id':{'type':'string'},'phase':{'enum':['commentary'" \
      ",'final_answer']}},'required':['type','id']}},'"                                            \
      "usage':{'type':['object','null']},'error':{'type':['object','null']}},'required':['id','"   \
      "object','created_at','status','model','output']}")                                          \
    X("ResponseInputTokens",                                                                       \
      "{'type':'object','properties':{'object':{'const':'response.input_tokens'},'input_tokens'"   \
      ":" OPENAPI_COUNT "},'required':['object','input_tokens']}")                                 \
    X("Conversation",                                                                              \
      "{'type':'object','properties':{'id':{'type':'string'},'object':{'type':'string'},"          \
      "'created_at':{'type':'integer'},'metadata':{'type':['object','null']},'deleted':"           \
      "{'const':true}},'required':['id']}")                                                        \
    X("ResponseEvent",                                                                             \
      "{'type':'object','properties':{'type':{'type':'string'},'sequence_number':" OPENAPI_COUNT   \
      "},'required':['type','sequence_number']}")                                                  \
    X("ResponseItems",                                                                             \
      "{'type':'object','properties':{'object':{'const':'list'},'data':{'type':'array','items':{'" \
      "type':'object'}},'first_id':" OPENAPI_TEXT_OR_NULL ",'last_id':" OPENAPI_TEXT_OR_NULL       \
      ",'has_more':{'type':'boolean'}},'required':['object','data','has_more']}")                  \
    X("ResponseDeleted",                                                                           \
      "{'type':'object','properties':{'id':{'type':'string'},'object':{'const':'response'},'"      \
      "deleted':{'const':true}},'required':['id','object','deleted']}")                            \
    X("Document", "{'type':'object','required':['openapi','info','paths']}")

#endif
