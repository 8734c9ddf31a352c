/* Embeds libosprey: asks the bundled model one question and prints its answer.
 *
 *     cc hello.c $(pkg-config --cflags --libs osprey) && ./a.out "What is the capital of France?" */
#include <stdio.h>

#include <osprey.h>

int main(int argc, char **argv)
{
    struct osp_model *model = NULL;
    struct osp_engine *engine = NULL;
    struct osp_request *request = NULL;
    struct osp_chat *chat = osp_chat_new();
    struct osp_event event = {.kind = OSP_EVENT_NONE};

    if (osp_chat_add(chat, "user", argc > 1 ? argv[1] : "What is the capital of France?") ||
        osp_model_open(&model, NULL) || osp_engine_open(&engine, model, NULL) ||
        osp_submit_chat(&request, engine, chat, NULL))
        fprintf(stderr, "hello: %s\n", osp_error());
    while (request && event.kind < OSP_EVENT_DONE && !osp_next_event(request, -1, &event))
        if (event.kind == OSP_EVENT_TEXT)
            fwrite(event.text, 1, event.n_bytes, stdout);
    puts("");
    osp_request_close(request);
    osp_engine_close(engine);
    osp_model_close(model);
    osp_chat_free(chat);
    return event.kind == OSP_EVENT_DONE ? 0 : 1;
}
