/* An answer that its client sends back, word for word: it is rendered as the tokens that the
 * model wrote, or from its text; and whatever was written, the prompt is one of whole messages. */
#include <string.h>

#include "answers.h"
#include "engine/chat/chat_cached.h"

enum { STORE_BYTES_MAX = 1 << 20, PROMPT_TOKENS_MAX = 1 << 20 };

/* Gives how many answers were replayed. */
static int render(struct answer *a, struct ids *out)
{
    struct chat_cached r = {.store = a->store, .prompt = prompt_hash_begin(NULL)};

    ids_init(out, PROMPT_TOKENS_MAX);
    CHECK(a, chat_render_cached(a->chat, a->t, &r, out) == OSP_OK);
    a->prompt_hash = chat_cached_prompt(&r, out);
    return r.n_reused;
}

void history_begin(struct answer *a)
{
    a->chat = osp_chat_new();
    a->store = completion_cache_new(STORE_BYTES_MAX);
    CHECK(a, a->store != NULL);
    CHECK(a, osp_chat_set_date(a->chat, "2026-01-31") == OSP_OK);
    for (int i = 0; i < N_FUNCTIONS; i++)
        CHECK(a, osp_chat_add_function(a->chat, answer_functions[i], NULL, NULL) == OSP_OK);
    CHECK(a, osp_chat_add(a->chat, "user", "Hi") == OSP_OK);
    CHECK(a, render(a, &a->prompt) == 0);
}

/* Messages follow each other as <|start|>, <|message|>, and what ends them. */
static void check_frames(const struct answer *a, const struct ids *ids)
{
    const struct special_ids *s = tokenizer_specials(a->t);
    int n_start = 0, n_message = 0, n_end = 0;

    for (size_t i = 0; i < ids->n; i++) {
        int32_t id = ids->data[i];

        n_start += id == s->start;
        n_message += id == s->message;
        n_end += id == s->end || id == s->call;
        CHECK(a, n_start >= n_message && n_message >= n_end && n_start <= n_end + 1);
        CHECK(a, !tokenizer_is_special(a->t, id) || id == s->start || id == s->message ||
                     id == s->end || id == s->call || id == s->channel || id == s->constrain);
    }
    CHECK(a, n_start == n_end + 1 && n_message == n_end);
}

/* The prompt, the tokens of the answer but for what ended it, one that ends it, and the next
 * answer's beginning. */
static void check_replayed(const struct answer *a, const struct ids *now)
{
    const size_t n_role = 2, n_frame = a->prompt.n + 1 + n_role;
    size_t n;

    CHECK(a, now->n > n_frame);
    n = now->n - n_frame;
    CHECK(a, n <= a->ids.n);
    CHECK(a, memcmp(now->data, a->prompt.data, a->prompt.n * sizeof *now->data) == 0);
    CHECK(a, memcmp(now->data + a->prompt.n, a->ids.data, n * sizeof *now->data) == 0);
}

static void check_plain(const struct answer *a, const struct ids *now)
{
    struct ids plain;

    ids_init(&plain, PROMPT_TOKENS_MAX);
    CHECK(a, chat_render_ids(a->chat, a->t, &plain) == OSP_OK);
    CHECK(a, plain.n == now->n);
    CHECK(a, memcmp(plain.data, now->data, now->n * sizeof *now->data) == 0);
    ids_release(&plain);
}

void history_check(struct answer *a)
{
    const bool is_ended =
        !a->is_cut && !a->ignores_stop_tokens && ends_answer(a, a->ids.data[a->ids.n - 1]);
    struct osp_replay_stats kept;
    struct ids now;
    int n_reused = render(a, &now);

    completion_cache_get_stats(a->store, &kept);
    check_frames(a, &now);
    if (n_reused > 0)
        check_replayed(a, &now);
    else
        check_plain(a, &now);
    if (is_ended && kept.n_answers > 0)
        CHECK(a, n_reused == 1);
    CHECK(a, kept.n_hits == n_reused);
    CHECK(a, !a->is_cut || kept.n_answers == 0);
    atomic_fetch_add(&a->results->n_sent_back, 1);
    atomic_fetch_add(&a->results->n_reused, (unsigned long long)n_reused);
    ids_release(&now);
    ids_release(&a->prompt);
    completion_cache_free(a->store);
    osp_chat_free(a->chat);
    a->store = NULL;
    a->chat = NULL;
}
