/* JSON schemas of the larger request fields, for the table of json_fields.c. They are written
 * with ' for ", as in struct field. */
#ifndef SERVE_FIELDS_FIELD_SCHEMAS_H
#define SERVE_FIELDS_FIELD_SCHEMAS_H

/* A token id; % stands for the last id of the vocabulary. */
#define FIELD_SCHEMA_TOKEN "{'type':'integer','minimum':0,'maximum':%}"
/* A string, or a list of content parts. */
#define FIELD_SCHEMA_CONTENT                                                                       \
    "{'anyOf':[{'type':'string'},{'type':'array','minItems':1,'items':{'type':'object',"           \
    "'properties':{'type':{'const':'text'},'text':{'type':'string'}},"                             \
    "'required':['type','text']}}]}"
/* A function name as the engine accepts it. */
#define FIELD_SCHEMA_NAME "{'type':'string','pattern':'^[a-zA-Z0-9_.-]{1,64}$'}"

#define FIELD_SCHEMA_CALLS                                                                         \
    "{'type':'array','items':{'anyOf':[{'type':'object','properties':{'id':{'type':'string',"      \
    "'minLength':1,'maxLength':256},'type':{'enum':['function',null]},'function':{'type':'object'" \
    ","                                                                                            \
    "'properties':{'name':" FIELD_SCHEMA_NAME ",'arguments':{'type':'string'}},"                   \
    "'required':['name','arguments']}},'required':['id','function']},{'type':'object',"            \
    "'properties':{'id':{'type':'string','minLength':1,'maxLength':256},'type':{'const':'custom'}" \
    ","                                                                                            \
    "'custom':{'type':'object','properties':{'name':" FIELD_SCHEMA_NAME                            \
    ",'input':{'type':'string'}},'required':['name','input']}},'required':['id','type','custom']}" \
    "]}}"

#define FIELD_SCHEMA_MESSAGES                                                                      \
    "{'type':'array','minItems':1,'items':{'anyOf':["                                              \
    "{'type':'object','properties':{'role':{'enum':['system','developer','user']},"                \
    "'content':" FIELD_SCHEMA_CONTENT "},'required':['role','content']},"                          \
    "{'type':'object','properties':{'role':{'const':'assistant'},'content':{'anyOf':"              \
    "[" FIELD_SCHEMA_CONTENT ",{'type':'null'}]}"                                                  \
    ",'reasoning':{'type':['string','null']},'reasoning_content':{'type':['string','null']},"      \
    "'phase':{'enum':['commentary','final_answer',null]},"                                         \
    "'tool_calls':{'anyOf':[" FIELD_SCHEMA_CALLS ",{'type':'null'}]}},'required':['role']},"       \
    "{'type':'object','properties':{'role':{'const':'tool'},'tool_call_id':{'type':'string',"      \
    "'minLength':1},'content':" FIELD_SCHEMA_CONTENT "},"                                          \
    "'required':['role','tool_call_id','content']}]}}"

#define FIELD_SCHEMA_TOOLS                                                                         \
    "{'type':'array','maxItems':512,'items':{'anyOf':[{'type':'object','properties':{'type':"      \
    "{'const':'function'},'function':{'type':'object','properties':{'name':" FIELD_SCHEMA_NAME     \
    ",'description':{'type':['string','null']},'parameters':{'type':['object','null']},"           \
    "'strict':{'type':['boolean','null']}},'required':['name']}},"                                 \
    "'required':['type','function']},{'type':'object','properties':{'type':{'const':'custom'},"    \
    "'custom':{'type':'object','properties':{'name':" FIELD_SCHEMA_NAME                            \
    ",'description':{'type':['string','null']},'format':{'type':['object','null'],'properties':{'" \
    "type':"                                                                                       \
    "{'const':'text'}},'required':['type']}},'required':['name']}},'required':['type','custom']}]" \
    "}}"

#endif
