/* Runs a matrix: starts osprey once per combination in a new process and reads its JSON. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/bench/bench.h"

enum { OUTPUT_BYTES_MAX = 64 << 20, MESSAGE_BYTES_MAX = 64 << 10, ERROR_BYTES = 300 };

struct cell {
    struct saved_bench result;
    char error[ERROR_BYTES]; /* "": it succeeded */
};

/* ---- the child's command line ---- */

/* Options of this process, with their values, that the child processes do not get. */
static bool is_own(const char *word)
{
    static const char *const OWN[] = {"--matrix", "--format", "--output", "--plot"};

    for (size_t i = 0; i < sizeof OWN / sizeof OWN[0]; i++) {
        size_t n = strlen(OWN[i]);

        if (strncmp(word, OWN[i], n) == 0 && (word[n] == '=' || word[n] == '\0'))
            return true;
    }
    return false;
}

/* argv of cell `index`; later options override earlier ones. */
static char **child_argv(const struct matrix *m, int index, char **argv, int argc)
{
    char **out = mem_new(((size_t)argc + MATRIX_AXES_MAX + 4) * sizeof *out);
    int n = 0;

    out[n++] = mem_strdup("osprey");
    for (int i = 0; i < argc; i++) {
        if (is_own(argv[i]))
            i += strchr(argv[i], '=') == NULL;
        else
            out[n++] = mem_strdup(argv[i]);
    }
    for (int i = 0; i < m->n_axes; i++)
        out[n++] = mem_printf("%s=%s", m->axes[i].flag, matrix_value(m, index, i));
    out[n] = mem_strdup("--format=json");
    return out;
}

static void free_argv(char **argv)
{
    for (char **word = argv; *word != NULL; word++)
        free(*word);
    free(argv);
}

/* ---- the child ---- */

static void exec_child(char **argv, int out, int err)
{
    unsetenv("OSPREY_MATRIX"); /* options of this process, as in is_own() */
    unsetenv("OSPREY_OUTPUT");
    unsetenv("OSPREY_PLOT");
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    execv("/proc/self/exe", argv);
    _exit(127);
}

/* Starts the child with standard output and standard error in unnamed files. */
static enum osp_status run_child(char **argv, FILE *out, FILE *err, int *status)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        return fail(OSP_ENOMEM, "cannot start a process: %s", strerror(errno));
    if (pid == 0)
        exec_child(argv, fileno(out), fileno(err));
    while (waitpid(pid, status, 0) < 0)
        if (errno != EINTR)
            return fail(OSP_EIO, "cannot wait for a process: %s", strerror(errno));
    return OSP_OK;
}

static void read_back(struct buf *b, FILE *f)
{
    char block[16 << 10];
    size_t n;

    rewind(f);
    while ((n = fread(block, 1, sizeof block, f)) > 0)
        if (!buf_append(b, block, n))
            break;
}

/* The last line of the child's standard error, without "osprey: ". */
static void last_line(char out[ERROR_BYTES], const struct buf *said, int status)
{
    const char *text = buf_text(said), *line = text;
    size_t n = said->size_bytes;

    if (WIFSIGNALED(status)) {
        snprintf(out, ERROR_BYTES, "ended by signal %d", WTERMSIG(status));
        return;
    }
    while (n > 0 && text[n - 1] == '\n')
        n--;
    for (size_t i = 0; i < n; i++)
        if (text[i] == '\n')
            line = text + i + 1;
    if (strncmp(line, "osprey: ", 8) == 0)
        line += 8;
    snprintf(out, ERROR_BYTES, "%.*s", (int)(text + n - line), line);
    if (out[0] == '\0')
        snprintf(out, ERROR_BYTES, "exit status %d", WEXITSTATUS(status));
}

static enum osp_status read_result(struct cell *c, FILE *out, FILE *err, int status)
{
    struct buf json, said;

    buf_init(&json, OUTPUT_BYTES_MAX);
    buf_init(&said, MESSAGE_BYTES_MAX);
    read_back(&json, out);
    read_back(&said, err);
    if (status != 0)
        last_line(c->error, &said, status);
    else if (saved_bench_parse(&c->result, buf_text(&json), json.size_bytes, "result") != OSP_OK)
        snprintf(c->error, sizeof c->error, "%.*s", ERROR_BYTES - 1, fail_message());
    buf_release(&json);
    buf_release(&said);
    return OSP_OK;
}

static enum osp_status run_cell(struct cell *c, char **argv)
{
    FILE *out = tmpfile(), *err = tmpfile();
    int status = 0;
    enum osp_status st;

    if (out == NULL || err == NULL) {
        st = fail(OSP_EIO, "cannot create a temporary file: %s", strerror(errno));
        goto out;
    }
    TRY(run_child(argv, out, err, &status));
    TRY(read_result(c, out, err, status));
out:
    if (out != NULL)
        fclose(out);
    if (err != NULL)
        fclose(err);
    return st;
}

/* ---- the table ---- */

static void put_head(FILE *out, const struct matrix *m, bool quality, bool csv)
{
    const char *bar = csv ? "," : " | ";

    fputs(csv ? "" : "| ", out);
    for (int i = 0; i < m->n_axes; i++)
        fprintf(out, "%s%s", m->axes[i].flag, bar);
    fprintf(out, "test%spp t/s%stg t/s%sTTFT p50 (ms)%sready (s)%speak memory (GB)", bar, bar, bar,
            bar, bar);
    if (quality)
        fprintf(out, "%sperplexity%sKL mean%sKL p99%ssame top (%%)", bar, bar, bar, bar);
    fprintf(out, "%sfailure%s\n", bar, csv ? "" : " |");
    if (csv)
        return;
    fputc('|', out);
    for (int i = 0; i < m->n_axes + 7 + (quality ? 4 : 0); i++)
        fputs("---|", out);
    fputc('\n', out);
}

static void put_flags(FILE *out, const struct matrix *m, int index, const char *bar)
{
    for (int i = 0; i < m->n_axes; i++)
        fprintf(out, "%s%s", matrix_value(m, index, i), bar);
}

static void put_row(FILE *out, const struct saved_bench *s, const struct saved_row *r, bool quality,
                    const char *bar)
{
    fprintf(out, "pp%d+tg%d d%d c%d%s%.2f%s%.2f%s%.2f%s%.3f%s%.3f%s", r->c.pp_tokens,
            r->c.tg_tokens, r->c.depth_tokens, r->c.concurrency, bar, r->pp, bar, r->tg, bar,
            r->ttft_p50 * 1e3, bar, s->ready_seconds, bar, (double)s->peak_bytes * 1e-9, bar);
    if (quality)
        fprintf(out, "%.4f%s%.3g%s%.3g%s%.3f%s", s->perplexity, bar, s->kl_mean, bar, s->kl_p99,
                bar, 100 * s->same_top, bar);
}

static void put_failure(FILE *out, const char *error, bool quality, bool csv)
{
    const char *bar = csv ? "," : " | ";

    for (int i = 0; i < 6 + (quality ? 4 : 0); i++)
        fputs(bar, out);
    for (; *error; error++) /* without the separators of the table */
        fputc(strchr("|,\"", *error) != NULL ? ' ' : *error, out);
}

static void put_cell(FILE *out, const struct matrix *m, int index, const struct cell *c,
                     bool quality, bool csv)
{
    const char *bar = csv ? "," : " | ";
    int n = c->error[0] != '\0' ? 1 : c->result.n_rows;

    for (int i = 0; i < n; i++) {
        fputs(csv ? "" : "| ", out);
        put_flags(out, m, index, bar);
        if (c->error[0] != '\0')
            put_failure(out, c->error, quality, csv);
        else
            put_row(out, &c->result, &c->result.rows[i], quality, bar);
        fputs(csv ? "\r\n" : " |\n", out);
    }
}

static void put_json(FILE *out, const struct matrix *m, const struct cell *cells)
{
    struct buf b;

    buf_init(&b, OUTPUT_BYTES_MAX);
    buf_puts(&b, "{\"matrix\": [");
    for (int i = 0; i < m->n_cells; i++) {
        const struct saved_bench *s = &cells[i].result;

        buf_printf(&b, "%s\n  {\"flags\": {", i > 0 ? "," : "");
        for (int a = 0; a < m->n_axes; a++) {
            const char *value = matrix_value(m, i, a);

            buf_puts(&b, a > 0 ? ", " : "");
            buf_json_string(&b, m->axes[a].flag, strlen(m->axes[a].flag));
            buf_puts(&b, ": ");
            buf_json_string(&b, value, strlen(value));
        }
        buf_puts(&b, "}, \"failure\": ");
        buf_json_string(&b, cells[i].error, strlen(cells[i].error));
        buf_printf(&b, ", \"ready_s\": %.4f, \"peak_bytes\": %lld", s->ready_seconds,
                   (long long)s->peak_bytes);
        if (s->has_quality)
            buf_printf(&b,
                       ", \"perplexity\": %.9g, \"kl_mean\": %.9g, \"kl_p99\": %.9g, \"same_top\": "
                       "%.9g",
                       s->perplexity, s->kl_mean, s->kl_p99, s->same_top);
        buf_puts(&b, ", \"benchmarks\": [");
        for (int r = 0; r < s->n_rows; r++)
            buf_printf(&b,
                       "%s{\"concurrency\": %d, \"context_size\": %d, \"prompt_size\": %d, "
                       "\"response_size\": %d, \"pp\": %.9g, \"tg\": %.9g}",
                       r > 0 ? ", " : "", s->rows[r].c.concurrency, s->rows[r].c.depth_tokens,
                       s->rows[r].c.pp_tokens, s->rows[r].c.tg_tokens, s->rows[r].pp,
                       s->rows[r].tg);
        buf_puts(&b, "]}");
    }
    buf_puts(&b, "\n]}\n");
    fputs(buf_text(&b), out);
    buf_release(&b);
}

static void put_result(FILE *out, const struct matrix *m, const struct cell *cells,
                       const char *format)
{
    bool csv = strcmp(format, "csv") == 0, quality = false;

    if (strcmp(format, "json") == 0) {
        put_json(out, m, cells);
        return;
    }
    for (int i = 0; i < m->n_cells; i++)
        quality = quality || cells[i].result.has_quality;
    put_head(out, m, quality, csv);
    for (int i = 0; i < m->n_cells; i++)
        put_cell(out, m, i, &cells[i], quality, csv);
}

enum osp_status matrix_run(const struct matrix *m, char **argv, int argc, FILE *out,
                           const char *format, int *n_failed)
{
    struct cell *cells = mem_new((size_t)m->n_cells * sizeof *cells);
    enum osp_status st = OSP_OK;

    *n_failed = 0;
    for (int i = 0; i < m->n_cells && st == OSP_OK; i++) {
        char **words = child_argv(m, i, argv, argc);

        fprintf(stderr, "[%d/%d]", i + 1, m->n_cells);
        for (int a = 0; a < m->n_axes; a++)
            fprintf(stderr, " %s %s", m->axes[a].flag, matrix_value(m, i, a));
        fputc('\n', stderr);
        st = run_cell(&cells[i], words);
        *n_failed += cells[i].error[0] != '\0';
        free_argv(words);
    }
    if (st == OSP_OK)
        put_result(out, m, cells, format);
    for (int i = 0; i < m->n_cells; i++)
        saved_bench_release(&cells[i].result);
    free(cells);
    return st;
}
