/* The tokenizer on adversarial text, timed. Without arguments it encodes texts of 1 MiB that would
 * be slow if any part of it took more than O(n log n). It is also a filter for comparisons with
 * other implementations (tests/text). Records on standard input and output are a little-endian
 * 32-bit count, then the items.
 *
 *   check_tokenizer VOCABULARY ids        bytes in, 32-bit ids out, as ordinary text
 *   check_tokenizer VOCABULARY specials   the same with control tokens recognised
 *   check_tokenizer VOCABULARY detok      bytes in, UTF-8 out, pushed in parts of 1 to 7 bytes
 *   check_tokenizer VOCABULARY time FILE  times opening the vocabulary, encoding and decoding FILE;
 *                                         prints the best of several runs
 *
 * ids also decodes the ids again and stops if the result differs from the text. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/rng.h"
#include "text/token/detok.h"
#include "text/token/tokenizer.h"

enum { RECORD_BYTES_MAX = 1 << 28, TIME_RUNS = 5 };
enum { HOSTILE_BYTES = 1 << 20, HOSTILE_MS_MAX = 60000 }; /* O(n^2) would take longer */

struct filter {
    struct tokenizer *tokenizer;
    char *record;
    size_t n_bytes, capacity_bytes;
    uint64_t n_records;
    struct ids ids;
    struct buf text, clean;
};

typedef enum osp_status filter_fn(struct filter *f);

/* Reads the next record; false at the end of input. */
static bool read_record(struct filter *f)
{
    uint32_t n;

    if (fread(&n, sizeof n, 1, stdin) != 1)
        return false;
    if (n > f->capacity_bytes) {
        free(f->record);
        f->capacity_bytes = n <= RECORD_BYTES_MAX ? n : 0;
        f->record = n <= RECORD_BYTES_MAX ? malloc(n) : NULL;
    }
    f->n_bytes = n;
    f->n_records++;
    return n == 0 || (f->record && fread(f->record, 1, n, stdin) == n);
}

static enum osp_status write_record(const void *items, size_t n, size_t item_bytes)
{
    uint32_t count = (uint32_t)n;

    if (fwrite(&count, sizeof count, 1, stdout) != 1 || fwrite(items, item_bytes, n, stdout) != n)
        return fail(OSP_EIO, "standard output is closed");
    return OSP_OK;
}

/* Record -> well-formed text, through detok, in parts whose lengths are derived from the record's
 * number. */
static enum osp_status clean_record(struct filter *f)
{
    struct detok d;
    bool ok = true;
    size_t at = 0;

    buf_clear(&f->clean);
    detok_init(&d);
    for (uint32_t part = 0; at < f->n_bytes; part++) {
        size_t n = 1 + rng_bits(1, f->n_records, part) % 7;

        n = n < f->n_bytes - at ? n : f->n_bytes - at;
        ok = detok_push(&d, f->record + at, n, &f->clean) && ok;
        at += n;
    }
    ok = detok_finish(&d, &f->clean) && ok;
    return ok ? OSP_OK
              : fail(OSP_ELIMIT, "record %llu is too long", (unsigned long long)f->n_records);
}

static enum osp_status check_round_trip(struct filter *f)
{
    enum osp_status st;

    buf_clear(&f->text);
    TRY(clean_record(f));
    TRY(tokenizer_decode(f->tokenizer, f->ids.data, f->ids.n, &f->text));
    if (f->text.size_bytes != f->clean.size_bytes ||
        memcmp(buf_text(&f->text), buf_text(&f->clean), f->text.size_bytes) != 0)
        return fail(OSP_EINTERNAL, "record %llu does not come back from its ids",
                    (unsigned long long)f->n_records);
out:
    return st;
}

static enum osp_status filter_ids(struct filter *f)
{
    enum osp_status st;

    ids_clear(&f->ids);
    TRY(tokenizer_encode(f->tokenizer, f->record, f->n_bytes, &f->ids));
    TRY(check_round_trip(f));
    TRY(write_record(f->ids.data, f->ids.n, sizeof *f->ids.data));
out:
    return st;
}

static enum osp_status filter_specials(struct filter *f)
{
    enum osp_status st;

    ids_clear(&f->ids);
    TRY(tokenizer_encode_with_specials(f->tokenizer, f->record, f->n_bytes, &f->ids));
    TRY(write_record(f->ids.data, f->ids.n, sizeof *f->ids.data));
out:
    return st;
}

static enum osp_status filter_detok(struct filter *f)
{
    enum osp_status st;

    TRY(clean_record(f));
    TRY(write_record(buf_text(&f->clean), f->clean.size_bytes, 1));
out:
    return st;
}

static enum osp_status run_filter(struct filter *f, filter_fn *filter)
{
    enum osp_status st = OSP_OK;

    while (st == OSP_OK && read_record(f))
        st = filter(f);
    if (st == OSP_OK && !feof(stdin))
        st = fail(OSP_EIO, "record %llu is cut off", (unsigned long long)f->n_records);
    return st;
}

/* The timed operations; each needs the result of the previous one. */
struct timing {
    struct filter *f;
    const char *vocabulary, *text;
    size_t n_bytes;
};

static enum osp_status time_open(struct timing *t)
{
    tokenizer_close(t->f->tokenizer);
    t->f->tokenizer = NULL;
    return tokenizer_open(&t->f->tokenizer, t->vocabulary);
}

static enum osp_status time_encode(struct timing *t)
{
    ids_clear(&t->f->ids);
    return tokenizer_encode(t->f->tokenizer, t->text, t->n_bytes, &t->f->ids);
}

static enum osp_status time_decode(struct timing *t)
{
    buf_clear(&t->f->text);
    return tokenizer_decode(t->f->tokenizer, t->f->ids.data, t->f->ids.n, &t->f->text);
}

/* Best of several runs, to reduce the effect of other load. */
static enum osp_status best_of_runs(struct timing *t, enum osp_status (*work)(struct timing *t),
                                    uint64_t *best_ns)
{
    enum osp_status st = OSP_OK;

    *best_ns = UINT64_MAX;
    for (int run = 0; run < TIME_RUNS; run++) {
        uint64_t start_ns = clock_ns(), took_ns;

        TRY(work(t));
        took_ns = clock_ns() - start_ns;
        *best_ns = took_ns < *best_ns ? took_ns : *best_ns;
    }
out:
    return st;
}

static enum osp_status run_timing(struct filter *f, const char *vocabulary, const char *path)
{
    struct timing t = {.f = f, .vocabulary = vocabulary};
    uint64_t open_ns, encode_ns, decode_ns;
    char *text = NULL;
    enum osp_status st;

    TRY(file_read(&text, &t.n_bytes, path, RECORD_BYTES_MAX));
    t.text = text;
    TRY(best_of_runs(&t, time_open, &open_ns));
    TRY(best_of_runs(&t, time_encode, &encode_ns));
    TRY(best_of_runs(&t, time_decode, &decode_ns));
    if (f->text.size_bytes != t.n_bytes || memcmp(f->text.data, text, t.n_bytes) != 0)
        TRY(fail(OSP_EINTERNAL, "%s does not come back from its ids", path));
    printf("%zu bytes, %zu tokens, open %.1f ms, encode %.1f MB/s, decode %.1f MB/s\n", t.n_bytes,
           f->ids.n, (double)open_ns * 1e-6, (double)t.n_bytes * 1e3 / (double)encode_ns,
           (double)t.n_bytes * 1e3 / (double)decode_ns);
out:
    free(text);
    return st;
}

/* Repeated to fill the text; "" stands for random lower-case letters. */
static const char *const hostile[] = {
    "a",
    "A",
    " ",
    "\n",
    "!",
    "'",
    "ab",
    "1",
    " \n",
    "\t\r",
    "\xFF",
    "\xF0\x9F",
    "\xE4\xB8\xAD",
    "\xCC\x81",
    ("\xCC\x81"
     "A"),
    "A'S",
    "<|",
    "a\xE3\x81\x82",
    "AAAA\xE3\x81\x82",
    "",
};

static void fill_hostile(struct buf *text, const char *unit)
{
    buf_clear(text);
    for (uint64_t i = 0; text->size_bytes < HOSTILE_BYTES; i++) {
        if (*unit)
            buf_puts(text, unit);
        else
            buf_putc(text, (char)('a' + rng_bits(1, i, 0) % 26));
    }
}

static enum osp_status time_hostile(struct filter *f, const char *unit, uint64_t *took_ms)
{
    enum osp_status st;
    uint64_t start_ns;

    fill_hostile(&f->text, unit);
    ids_clear(&f->ids);
    start_ns = clock_ns();
    TRY(tokenizer_encode_with_specials(f->tokenizer, f->text.data, f->text.size_bytes, &f->ids));
    *took_ms = (clock_ns() - start_ns) / 1000000;
    buf_clear(&f->clean);
    buf_json_string(&f->clean, unit, strlen(unit));
    printf("%4llu ms  %7zu tokens  %s\n", (unsigned long long)*took_ms, f->ids.n,
           *unit ? buf_text(&f->clean) : "random letters");
out:
    return st;
}

static enum osp_status run_hostile(struct filter *f)
{
    uint64_t took_ms, worst_ms = 0;
    enum osp_status st;

    TRY(tokenizer_open(&f->tokenizer, "tests/golden/tokenizer/o200k_base.tiktoken"));
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        TRY(time_hostile(f, hostile[i], &took_ms));
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    if (worst_ms > HOSTILE_MS_MAX)
        return fail(OSP_ELIMIT, "1 MiB took %llu ms, limit is %d", (unsigned long long)worst_ms,
                    HOSTILE_MS_MAX);
    printf("1 MiB of hostile text: at most %llu ms\n", (unsigned long long)worst_ms);
out:
    return st;
}

static enum osp_status run(struct filter *f, int argc, char **argv)
{
    static const struct {
        const char *name;
        filter_fn *filter;
    } filters[] = {{"ids", filter_ids}, {"specials", filter_specials}, {"detok", filter_detok}};
    enum osp_status st;

    if (argc == 1)
        return run_hostile(f);
    if (argc < 3)
        return fail(OSP_EINVAL, "usage: %s [VOCABULARY ids|specials|detok|time [FILE]]", argv[0]);
    TRY(tokenizer_open(&f->tokenizer, argv[1]));
    if (strcmp(argv[2], "time") == 0 && argc == 4)
        return run_timing(f, argv[1], argv[3]);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++)
        if (strcmp(argv[2], filters[i].name) == 0)
            return run_filter(f, filters[i].filter);
    return fail(OSP_EINVAL, "there is no filter %s", argv[2]);
out:
    return st;
}

int main(int argc, char **argv)
{
    struct filter f = {0};
    enum osp_status st;

    ids_init(&f.ids, RECORD_BYTES_MAX);
    buf_init(&f.text, 3u * RECORD_BYTES_MAX);
    buf_init(&f.clean, 3u * RECORD_BYTES_MAX);
    st = run(&f, argc, argv);
    if (st != OSP_OK)
        fprintf(stderr, "check_tokenizer: %s\n", fail_message());
    tokenizer_close(f.tokenizer);
    free(f.record);
    ids_release(&f.ids);
    buf_release(&f.text);
    buf_release(&f.clean);
    return st == OSP_OK ? 0 : 1;
}
