/* A device that computes nothing, at a set speed. It replaces the device "cpu" in the program
 * (Makefile), so that everything else is the released server.
 *
 * The answer is Harmony's header of a final message, then the letters a to p over and over, by
 * position, so that a client can check that it received all of it. It ends with max_tokens.
 *
 * A step begins when it is submitted and runs asynchronously, as on a GPU: the host waits for its
 * end.
 *
 * OSPREY_FAKE_STEP_MS   milliseconds of a step (500: two tokens a second for every stream)
 * OSPREY_FAKE_CONTROL   a file that every step reads; its first word is "run", "hang" (the step
 *                       lasts until the word changes) or "fail" (the device fails), and a number
 *                       after it sets the milliseconds
 * OSPREY_FAKE_SCRIPT    a file that every step reads: a number, then the ids of an answer. While
 *                       the number stays the same, the ids are sampled one by one, for whatever
 *                       request; letters follow the last one
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/memory.h"
#include "osprey.h"

enum { N_LETTERS = 16, STEP_MS_DEFAULT = 500, POLL_MS = 5, SCRIPT_IDS_MAX = 4096 };

struct script {
    long number;
    int32_t ids[SCRIPT_IDS_MAX];
    int n, n_drawn;
};

struct fake {
    uint64_t end_ns; /* of the step that runs, or ran last */
    int step_ms;
    int32_t header[5]; /* <|start|> assistant <|channel|> final <|message|> */
    int32_t letters[N_LETTERS];
    struct script script;
};

static struct fake *fake_of(struct backend *be)
{
    return (struct fake *)be;
}

/* ---- sampled tokens ---- */

static enum osp_status read_ids(struct fake *f)
{
    static const char header[] = "<|start|>assistant<|channel|>final<|message|>";
    struct osp_tokenizer *t = NULL;
    int32_t *ids = NULL;
    size_t n;
    enum osp_status st;

    TRY(osp_tokenizer_open(&t, NULL));
    TRY(osp_tokenize(t, header, strlen(header), true, &ids, &n));
    if (n != 5)
        st = fail(OSP_EFORMAT, "the header of an answer has %zu tokens, 5 are expected", n);
    else
        memcpy(f->header, ids, sizeof f->header);
    osp_free(ids);
    for (int i = 0; st == OSP_OK && i < N_LETTERS; i++) {
        char letter = (char)('a' + i);

        TRY(osp_tokenize(t, &letter, 1, false, &ids, &n));
        f->letters[i] = ids[0];
        osp_free(ids);
    }
out:
    osp_tokenizer_close(t);
    return st;
}

/* The file is replaced as a whole, never written into. */
static void read_script(struct script *s)
{
    const char *path = getenv("OSPREY_FAKE_SCRIPT");
    FILE *file = path ? fopen(path, "r") : NULL;
    long number;

    if (file && fscanf(file, "%ld", &number) == 1 && number != s->number) {
        *s = (struct script){.number = number};
        while (s->n < SCRIPT_IDS_MAX && fscanf(file, "%d", &s->ids[s->n]) == 1)
            s->n++;
    }
    if (file)
        fclose(file);
}

static int32_t next_token(struct fake *f, int32_t last, int position)
{
    if (f->script.n_drawn < f->script.n)
        return f->script.ids[f->script.n_drawn++];
    for (int i = 1; i + 1 < 5; i++)
        if (last == f->header[i])
            return f->header[i + 1];
    return f->letters[position % N_LETTERS];
}

static void draw(struct fake *f, const struct sample_args *a, const struct batch *b)
{
    int32_t *tokens = a->tokens.data;
    float *logprobs = a->logprobs.data;

    if (b->n_samples > 0)
        read_script(&f->script);
    for (int i = 0; i < b->n_samples; i++) {
        int row = BATCH_SAMPLES(b)[i].row;

        tokens[i] = next_token(f, BATCH_TOKENS(b)[row], BATCH_POSITIONS(b)[row] + 1);
        logprobs[i] = 0;
    }
}

/* ---- the pace ---- */

enum mode { MODE_RUN, MODE_HANG, MODE_FAIL };

static enum mode read_control(struct fake *f)
{
    const char *path = getenv("OSPREY_FAKE_CONTROL");
    FILE *file = path ? fopen(path, "r") : NULL;
    char word[8] = "run";

    if (file) {
        if (fscanf(file, "%7s %d", word, &f->step_ms) < 1)
            strcpy(word, "run"); /* it is being written */
        fclose(file);
    }
    return word[0] == 'h' ? MODE_HANG : word[0] == 'f' ? MODE_FAIL : MODE_RUN;
}

static void signal_held(void)
{
    char *path = mem_printf("%s.held", getenv("OSPREY_FAKE_CONTROL"));
    FILE *file = fopen(path, "w");

    if (file)
        fclose(file);
    free(path);
}

static void sleep_until(uint64_t end_ns)
{
    struct timespec t = {.tv_sec = (time_t)(end_ns / 1000000000),
                         .tv_nsec = (long)(end_ns % 1000000000)};

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        continue;
}

static enum osp_status wait_for_end(struct fake *f)
{
    enum mode mode = read_control(f);

    if (mode == MODE_HANG)
        signal_held();
    while (mode == MODE_HANG) {
        sleep_until(clock_ns() + POLL_MS * 1000000);
        mode = read_control(f);
    }
    if (mode == MODE_FAIL)
        return fail(OSP_EDEVICE, "the control file says so");
    sleep_until(f->end_ns);
    return OSP_OK;
}

/* ---- the device ---- */

static enum osp_status fake_open(struct backend **out, const struct backend_options *opt)
{
    const char *step_ms = getenv("OSPREY_FAKE_STEP_MS");
    struct fake *f = mem_new(sizeof *f);
    enum osp_status st = read_ids(f);

    f->step_ms = step_ms ? atoi(step_ms) : STEP_MS_DEFAULT;
    (void)opt;
    if (st == OSP_OK)
        *out = (struct backend *)f;
    else
        free(f);
    return st;
}

static void fake_close(struct backend *be)
{
    free(be);
}

static void fake_info(const struct backend *be, struct device_info *out)
{
    (void)be;
    *out = (struct device_info){.name = "a device that computes nothing", .runs_async = true};
}

/* Never touched, so never resident. */
static enum osp_status fake_alloc(struct backend *be, struct mem *out, size_t size_bytes)
{
    void *data = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    (void)be;
    if (data == MAP_FAILED)
        return fail(OSP_ENOMEM, "%zu bytes cannot be mapped", size_bytes);
    *out = (struct mem){.data = data, .size_bytes = size_bytes};
    return OSP_OK;
}

static void fake_release(struct backend *be, struct mem *m)
{
    (void)be;
    if (m->data)
        munmap(m->data, m->size_bytes);
    *m = (struct mem){0};
}

static enum osp_status fake_move(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    (void)be;
    memmove(dst, src, n_bytes);
    return OSP_OK;
}

/* From page to page of its own memory, which nobody reads. */
static enum osp_status fake_copy(struct backend *be, void *dst, const void *src, size_t n_bytes)
{
    (void)be;
    (void)dst;
    (void)src;
    (void)n_bytes;
    return OSP_OK;
}

static enum osp_status fake_pack(struct backend *be, struct tensor *out, const struct tensor *host)
{
    (void)be;
    *out = *host;
    return OSP_OK;
}

static int64_t fake_pack_bytes(const struct backend *be, const struct tensor *host)
{
    (void)be;
    (void)host;
    return 0;
}

static enum osp_status fake_kv_dtype(const struct backend_options *opt, enum dtype *out)
{
    (void)opt;
    if (*out == DTYPE_NONE)
        *out = DTYPE_BF16;
    return OSP_OK;
}

static enum osp_status fake_memory(struct device_memory *out, int first, int n)
{
    (void)first;
    (void)n;
    *out = (struct device_memory){.total_bytes = (int64_t)1 << 40, .free_bytes = (int64_t)1 << 40};
    return OSP_OK;
}

static int64_t fake_step_bytes(const struct step_shape *shape)
{
    (void)shape;
    return 0;
}

static enum osp_status fake_step_reserve(struct backend *be, const struct step_shape *shape)
{
    (void)be;
    (void)shape;
    return OSP_OK;
}

/* A program: where its stage sample leaves what is sampled. */
struct compiled {
    struct sample_args sample;
};

static enum osp_status fake_compile(struct backend *be, const struct program *p,
                                    struct compiled **out)
{
    struct compiled *c = mem_new(sizeof *c);
    union stage_args args;

    (void)be;
    for (int i = 0; i < p->n_ops; i++)
        if (p->ops[i].stage == STAGE_sample) {
            program_args(p, i, &args);
            c->sample = args.sample;
        }
    *out = c;
    return OSP_OK;
}

static void fake_release_program(struct backend *be, struct compiled *c)
{
    (void)be;
    free(c);
}

static enum osp_status fake_run(struct backend *be, struct compiled *c, const struct batch *b,
                                uint64_t *ticket)
{
    struct fake *f = fake_of(be);

    draw(f, &c->sample, b);
    f->end_ns = clock_ns() + (uint64_t)f->step_ms * 1000000;
    *ticket = 1;
    return OSP_OK;
}

static enum osp_status fake_step_wait(struct backend *be, uint64_t ticket)
{
    (void)ticket;
    return wait_for_end(fake_of(be));
}

static int fake_costs(const struct backend *be, struct stage_cost *out, int n_max)
{
    (void)be;
    (void)out;
    (void)n_max;
    return 0;
}

extern const struct backend_ops fake_backend_ops;
const struct backend_ops fake_backend_ops = {.name = "cpu",
                                             .open = fake_open,
                                             .close = fake_close,
                                             .info = fake_info,
                                             .alloc = fake_alloc,
                                             .release = fake_release,
                                             .write = fake_move,
                                             .read = fake_move,
                                             .copy = fake_copy,
                                             .pack = fake_pack,
                                             .pack_bytes = fake_pack_bytes,
                                             .kv_dtype = fake_kv_dtype,
                                             .memory = fake_memory,
                                             .step_bytes = fake_step_bytes,
                                             .step_reserve = fake_step_reserve,
                                             .compile = fake_compile,
                                             .release_program = fake_release_program,
                                             .run = fake_run,
                                             .step_wait = fake_step_wait,
                                             .costs = fake_costs};
