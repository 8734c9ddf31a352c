/* Whatever a model writes, its client gets an answer: the malformed forms of docs/harmony.md,
 * and random and mutated token streams (harmony_streams.h), through all that turns tokens into
 * HTTP replies: a request's events and both forms of a reply's JSON.
 *
 *   check_answers [N] [FIRST]   the table, then N streams (60,000) from number FIRST (0) on, on all
 *                               CPUs; CHECK_QUICK=1: 20,000
 *
 * Of each stream, and of each row cut off behind any of its tokens: the reader ends, messages
 * begin and end in pairs, deltas are whole characters, every byte that was written inside of
 * content comes out in order; no event is an error, and no reply too large; reasoning, content,
 * calls and arguments are what the messages say, cut at the stop string that is complete first;
 * the whole reply says the same as the streamed one, however many tokens come between two looks;
 * the finish reason and the tokens told are right. Some are sent back by their client: they come
 * to the prompt as the tokens that were written if they are well-formed, else from their text,
 * and no prompt has a control token but those of whole messages. Offered functions stay, stop
 * strings differ from stream to stream. A failure names the stream's number. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "answers/answers.h"
#include "base/clock.h"

enum { STREAMS_DEFAULT = 60000, STREAMS_QUICK = 20000, ROWS_MIN = 100, THREADS_MAX = 256 };

static const char published[] = "tests/golden/tokenizer/o200k_base.tiktoken";
static const char document[] = "docs/harmony.md";
static const char *const stop_strings[] = {
    "Hi", "o t", "é", "}", "\n\n", "Hello there", "12", "a\": 1", "ello", "\xf0\x9f\x92\x96", "<",
};

static struct {
    const struct tokenizer *t;
    uint64_t first, n;
    atomic_ullong next;
    struct results results;
} job;

static void choose_stops(struct answer *a)
{
    a->n_stops = (int)(roll(&a->dice, 2) * roll(&a->dice, STOPS_MAX + 1));
    for (int i = 0; i < a->n_stops; i++)
        a->stops[i] = stop_strings[roll(&a->dice, COUNT(stop_strings))];
    a->ignores_stop_tokens = roll(&a->dice, 4) == 0;
}

static void check_stream(struct answer *a, const struct stock *stock, uint64_t number)
{
    a->number = number;
    a->dice = (struct dice){.stream = number};
    ids_clear(&a->ids);
    if (number % 2 == 0)
        random_stream(&a->dice, stock, &a->ids);
    else
        mutated_stream(&a->dice, stock, &a->ids);
    if (a->ids.n == 0)
        ids_push(&a->ids, random_token(&a->dice, stock));
    choose_stops(a);
    answer_check(a);
}

static void *work(void *arg)
{
    struct answer a;
    struct stock stock;
    uint64_t i;

    (void)arg;
    answer_init(&a, job.t, &job.results);
    CHECK(&a, stock_init(&stock, job.t));
    while ((i = atomic_fetch_add(&job.next, 1)) < job.n)
        check_stream(&a, &stock, job.first + i);
    stock_release(&stock);
    answer_release(&a);
    return NULL;
}

static void work_on_all_cpus(void)
{
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    pthread_t threads[THREADS_MAX];
    int n_threads = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (int)n;

    for (int i = 0; i < n_threads; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) != 0)
            n_threads = i;
    if (n_threads == 0)
        work(NULL);
    for (int i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
}

static int check_table(void)
{
    struct results results = {0};
    struct answer a;
    int n;

    answer_init(&a, job.t, &results);
    n = table_check(&a, document);
    if (n < ROWS_MIN)
        answer_die(&a, "%s has %d rows, more are expected", document, n);
    answer_release(&a);
    return n;
}

/* Streams of which nothing comes would test nothing. */
static bool says_enough(void)
{
    return job.n < STREAMS_QUICK ||
           (job.results.n_messages > job.n / 2 && job.results.n_calls > job.n / 20 &&
            job.results.n_cut > job.n / 40 && job.results.n_reused > job.results.n_sent_back / 20);
}

int main(int argc, char **argv)
{
    struct tokenizer *t;
    uint64_t begin_ns = clock_ns();
    int n_rows;

    job.n = getenv("CHECK_QUICK") != NULL ? STREAMS_QUICK : STREAMS_DEFAULT;
    if (argc > 1)
        job.n = strtoull(argv[1], NULL, 10);
    job.first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    if (tokenizer_open(&t, published) != OSP_OK) {
        fprintf(stderr, "%s\n", fail_message());
        return 1;
    }
    job.t = t;
    n_rows = check_table();
    work_on_all_cpus();
    tokenizer_close(t);
    printf("%d rows; %llu streams of %llu tokens: %llu messages, %llu calls, %llu cut at a stop "
           "string; "
           "%llu sent back, %llu of them replayed; %.1f s\n",
           n_rows, (unsigned long long)job.n, (unsigned long long)job.results.n_tokens,
           (unsigned long long)job.results.n_messages, (unsigned long long)job.results.n_calls,
           (unsigned long long)job.results.n_cut, (unsigned long long)job.results.n_sent_back,
           (unsigned long long)job.results.n_reused, (double)(clock_ns() - begin_ns) * 1e-9);
    if (!says_enough()) {
        fprintf(stderr, "too few messages, calls or stop strings: the streams test little\n");
        return 1;
    }
    return 0;
}
