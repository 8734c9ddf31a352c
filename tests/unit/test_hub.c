/* Models on a hub, without the network: names, header lines, listings, the choice of files, partial
 * downloads, and the cache. */
#include "unit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/memory.h"
#include "cli/terminal/pull_line.h"
#include "store/hub/hub_cache.h"
#include "store/hub/hub_choose.h"
#include "store/hub/hub_fetch.h"
#include "store/hub/hub_lock.h"
#include "store/hub/hub_settings.h"
#include "store/hub/part_file.h"

#define COMMIT "1234567890abcdef1234567890abcdef12345678"
#define SHA1   "2fbefdc7d6275e59f28ad4b5b75f74363e3b4e02"
#define SHA256 "fb8038c12c004d3eadd6df5e90e138d18150bf9dd8ad53cc0e7076dbb28d1353"

static char folder[] = "/tmp/test_hub-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    memcpy(folder + sizeof folder - 7, "XXXXXX", 6);
    return mkdtemp(folder) ? 0 : 1;
}

static int remove_folder(void **state)
{
    char *command = mem_printf("rm -rf %s", folder);
    const int code = system(command);

    (void)state;
    free(command);
    return code;
}

static void run_in_folder(const char *script)
{
    char *command = mem_printf("cd %s && %s", folder, script);

    assert_int_equal(system(command), 0);
    free(command);
}

/* ---- names ---- */

static void test_names(void **state)
{
    static const char *const good[] = {"openai/gpt-oss-20b", "a/b",    "A_1/x.y-z",
                                       "a/b:Q8_0",           "a/b@v1", "a/b:UD-Q4_K_XL@refs/pr/1"};
    static const char *const bad[] = {"gpt-oss-20b", "/a/b",    "./a",     "a/..",    "a/.b",
                                      "../b",        "a/b/c",   "~/a",     "a/b c",   "a/",
                                      "/",           "",        "a//b",    "a/b:",    "a/b@",
                                      "a/b@../x",    "a/b@/x",  "a/b:x/y", "a/b--c",  "a/b.gguf",
                                      "a/b@a//b",    "a/b:x:y", "a/b@x/",  "a/b@x@y", "a/b@a/./b"};

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(hub_name_is(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (hub_name_is(bad[i]))
            fail_msg("%s was taken for a name", bad[i]);
}

static void test_name_parts(void **state)
{
    struct hub_name name;

    (void)state;
    assert_int_equal(hub_name_parse(&name, "user/model:Q8_0@v1", NULL), OSP_OK);
    assert_string_equal(name.repo, "user/model");
    assert_string_equal(name.tag, "Q8_0");
    assert_string_equal(name.revision, "v1");
    assert_int_equal(hub_name_parse(&name, "user/model", NULL), OSP_OK);
    assert_string_equal(name.revision, "main");
    assert_int_equal(hub_name_parse(&name, "user/model", "v2"), OSP_OK);
    assert_string_equal(name.revision, "v2");
    assert_int_equal(hub_name_parse(&name, "user/model@v2", "v2"), OSP_OK);
    assert_int_equal(hub_name_parse(&name, "user/model@v1", "v2"), OSP_EINVAL);
    assert_int_equal(hub_name_parse(&name, "user/model", "../x"), OSP_EINVAL);
}

static void test_paths(void **state)
{
    static const char *const good[] = {"config.json", "a/b/c.safetensors", "..a",
                                       "a..b/c",      "\xc3\xa4.json",     "a b"};
    static const char *const bad[] = {"",      "/etc/passwd", "../x",         "a/../b",
                                      "a/..",  ".",           "a//b",         "a/",
                                      "a/./b", "a\\b",        "a\nb",         "\x1b[2J",
                                      "\xff",  "a/\x7f",      "\xe2\x80\xae", "1/2/3/4/5/6/7/8/9"};
    char longest[HUB_PATH_BYTES_MAX + 2];

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        assert_true(hub_path_is_sane(good[i]));
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (hub_path_is_sane(bad[i]))
            fail_msg("path %zu was accepted", i);
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    assert_false(hub_path_is_sane(longest));
    for (size_t i = 100; i < sizeof longest; i += 100)
        longest[i] = '/';
    assert_false(hub_path_is_sane(longest)); /* too long */
    longest[HUB_PATH_BYTES_MAX] = '\0';
    assert_true(hub_path_is_sane(longest));
}

/* ---- header lines ---- */

static const char *add_line(struct hub_headers *h, const char *line)
{
    hub_headers_add(h, line, strlen(line), 1000000000); /* 2001-09-09T01:46:40Z */
    return line;
}

static void test_header_values(void **state)
{
    struct hub_headers h;

    (void)state;
    hub_headers_init(&h);
    add_line(&h, "x-linked-etag: W/\"" SHA256 "\"\r\n");
    add_line(&h, "X-Linked-Size:  5615112 \r\n");
    add_line(&h, "X-Repo-Commit: " COMMIT "\r\n");
    add_line(&h, "Content-Range: bytes 100-199/1000\r\n");
    add_line(&h, "Retry-After: 120\r\n");
    add_line(&h, "RateLimit: \"resolvers\";r=0;t=77\r\n");
    add_line(&h, "X-Error-Code: GatedRepo");
    add_line(
        &h, "Link: <https://h/a?cursor=1>; rel=\"prev\", <https://h/a?cursor=3>; rel=\"next\"\r\n");
    assert_string_equal(h.linked_etag, SHA256);
    assert_int_equal(h.linked_size, 5615112);
    assert_string_equal(h.commit, COMMIT);
    assert_true(h.has_range && !h.bad_range);
    assert_int_equal(h.range_first, 100);
    assert_int_equal(h.range_last, 199);
    assert_int_equal(h.range_total, 1000);
    assert_int_equal(h.retry_after_s, 120);
    assert_int_equal(h.rate_limit_s, 77);
    assert_string_equal(h.error_code, "GatedRepo");
    assert_string_equal(h.next, "https://h/a?cursor=3");
    assert_false(h.is_encoded);
    add_line(&h, "Retry-After: Sun, 09 Sep 2001 01:47:10 GMT");
    assert_int_equal(h.retry_after_s, 30);
    add_line(&h, "Retry-After: Sun, 09 Sep 2001 01:00:00 GMT");
    assert_int_equal(h.retry_after_s, 0);
    add_line(&h, "Retry-After: 99999999");
    assert_int_equal(h.retry_after_s, HUB_WAIT_S_MAX);
    add_line(&h, "Content-Encoding: gzip");
    assert_true(h.is_encoded);
}

static void test_hostile_headers(void **state)
{
    static const char *const ranges[] = {
        "bytes 5-4/10", "bytes 0-10/10", "bytes -1-4/10",
        "items 0-4/10", "bytes 0-4",     "bytes 0-4/x",
        "bytes a-b/c",  "bytes 0-4/",    "",
        "bytes */10",   "bytes 0-4/10x", "bytes 0-99999999999999999999/9",
        "bytes 0 -4/10"};
    struct hub_headers h;
    char line[2 * HUB_URL_BYTES_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++) {
        hub_headers_init(&h);
        snprintf(line, sizeof line, "Content-Range: %s", ranges[i]);
        add_line(&h, line);
        if (!h.has_range || !h.bad_range)
            fail_msg("range '%s' was accepted", ranges[i]);
    }
    hub_headers_init(&h);
    add_line(&h, "X-Linked-Etag: \"../../etc/passwd\"");
    add_line(&h, "X-Repo-Commit: ../x");
    add_line(&h, "X-Linked-Size: -5");
    add_line(&h, "Content-Length: 1e9");
    add_line(&h, "Retry-After: soon");
    add_line(&h, "RateLimit: ;t=");
    add_line(&h, "no colon");
    hub_headers_add(&h, "X-Error-Code: a\0b", 17, 0);
    memset(line, 'a', sizeof line - 1);
    memcpy(line, "X-Error-Code: ", 14);
    line[sizeof line - 1] = '\0';
    add_line(&h, line);
    memcpy(line, "Link: <", 7);
    add_line(&h, line);
    assert_string_equal(h.linked_etag, "");
    assert_string_equal(h.commit, "");
    assert_string_equal(h.error_code, "");
    assert_string_equal(h.next, "");
    assert_int_equal(h.linked_size, -1);
    assert_int_equal(h.content_length, -1);
    assert_int_equal(h.retry_after_s, -1);
    assert_int_equal(h.rate_limit_s, -1);
}

/* ---- retries and redirects ---- */

static void test_retry_times(void **state)
{
    struct hub_response *r = mem_new(sizeof *r);

    (void)state;
    hub_headers_init(&r->headers);
    r->status = 503;
    assert_int_equal(hub_retry_ms(r, 1), 500);
    assert_int_equal(hub_retry_ms(r, 3), 2000);
    assert_int_equal(hub_retry_ms(r, 40), HUB_BACKOFF_MS_MAX);
    r->headers.rate_limit_s = 50; /* counts for 429 only */
    assert_int_equal(hub_retry_ms(r, 1), 500);
    r->status = 429;
    assert_int_equal(hub_retry_ms(r, 1), 50000);
    r->headers.retry_after_s = 7;
    assert_int_equal(hub_retry_ms(r, 1), 7000);
    r->headers.retry_after_s = HUB_RETRY_AFTER_MAX_S + 1;
    assert_int_equal(hub_retry_ms(r, 1), -1);
    free(r);
}

/* The token goes to the hub's own origin and nowhere else. */
static void test_where_the_token_goes(void **state)
{
    static const struct {
        const char *from, *url;
        enum osp_status st;
        bool sends;
    } cases[] = {
        {NULL, "https://hub.example/a", OSP_OK, true},
        {NULL, "https://HUB.example:443/a", OSP_OK, true},
        {"https://hub.example/a", "https://hub.example/b", OSP_OK, true},
        {"https://hub.example/a", "https://cdn.example/b", OSP_OK, false},
        {"https://hub.example/a", "https://hub.example:8443/b", OSP_OK, false},
        {"https://hub.example/a", "https://hub.example.evil/b", OSP_OK, false},
        {"https://hub.example/a", "https://evil.example/https://hub.example/", OSP_OK, false},
        {"https://cdn.example/a", "https://hub.example/b", OSP_OK, true},
        {"https://hub.example/a", "http://hub.example/b", OSP_EUNAVAILABLE, false},
        {"https://cdn.example/a", "http://cdn.example/b", OSP_EUNAVAILABLE, false},
        {"https://hub.example/a", "https://hub.example@evil.example/b", OSP_EFORMAT, false},
        {"https://hub.example/a", "file:///etc/passwd", OSP_EFORMAT, false},
        {"https://hub.example/a", "ftp://hub.example/b", OSP_EFORMAT, false},
        {"https://hub.example/a", "", OSP_EFORMAT, false},
    };
    char endpoint[] = "https://hub.example";
    const struct hub_settings s = {.endpoint = endpoint};

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        bool sends = false;
        const enum osp_status st = hub_check_url(&sends, &s, cases[i].from, cases[i].url);

        if (st != cases[i].st || sends != cases[i].sends)
            fail_msg("%s: status %d, sends %d", cases[i].url, (int)st, sends);
    }
}

/* ---- listings ---- */

static enum osp_status read_page(struct hub_listing *l, const char *text)
{
    *l = (struct hub_listing){0};
    return hub_listing_add_page(l, text, strlen(text), "hub");
}

static void test_listing(void **state)
{
    struct hub_listing l;

    (void)state;
    assert_int_equal(
        read_page(&l,
                  "[{\"type\":\"directory\",\"oid\":\"x\",\"size\":0,\"path\":\"original\"},"
                  "{\"type\":\"file\",\"oid\":\"" SHA1 "\",\"size\":12,\"path\":\"config.json\"},"
                  "{\"type\":\"file\",\"oid\":\"" SHA1 "\",\"size\":135,\"path\":\"m.safetensors\","
                  "\"lfs\":{\"oid\":\"" SHA256 "\",\"size\":5000000000,\"pointerSize\":135}}]"),
        OSP_OK);
    assert_int_equal(l.n, 2);
    assert_string_equal(l.files[0].etag, SHA1);
    assert_int_equal(l.files[1].size, 5000000000);
    assert_string_equal(l.files[1].etag, SHA256);
    assert_int_equal(hub_listing_check(&l, "hub"), OSP_OK);
    assert_int_equal(hub_listing_add(&l, "config.json", 1), OSP_OK);
    assert_int_equal(hub_listing_check(&l, "hub"), OSP_EFORMAT);
    hub_listing_release(&l);
}

#define ENTRY(members) "[{\"type\":\"file\"," members "}]"

static void test_hostile_listings(void **state)
{
    static const char *const pages[] = {
        "",
        "{}",
        "null",
        "[1]",
        "[{}]",
        "[[]]",
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"path\":\"../x\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"path\":\"/etc/passwd\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"path\":\"a\\u0000b\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"path\":7"),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":-1,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1e3,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":9223372036854775807,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":99999999999999999999,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"path\":\"a\""),
        ENTRY("\"oid\":\"../../../../../../../../../../../../etc/pas\",\"size\":1,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA256 "\",\"size\":1,\"path\":\"a\""),
        ENTRY("\"size\":1,\"path\":\"a\""),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"path\":\"a\",\"lfs\":{\"oid\":\"" SHA1
              "\",\"size\":1}"),
        ENTRY("\"oid\":\"" SHA1 "\",\"size\":1,\"size\":2,\"path\":\"a\""),
    };

    (void)state;
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        struct hub_listing l;

        if (read_page(&l, pages[i]) == OSP_OK)
            fail_msg("page %zu was accepted: %s", i, pages[i]);
        hub_listing_release(&l);
    }
}

static void test_commit(void **state)
{
    char commit[HUB_COMMIT_BYTES + 1];
    const char *good = "{\"id\":\"a/b\",\"sha\":\"" COMMIT "\"}";
    const char *bad = "{\"sha\":\"../../x\"}";

    (void)state;
    assert_int_equal(hub_commit_read(commit, good, strlen(good), "hub"), OSP_OK);
    assert_string_equal(commit, COMMIT);
    assert_int_equal(hub_commit_read(commit, bad, strlen(bad), "hub"), OSP_EFORMAT);
}

/* ---- the choice of files ---- */

/* The wanted files with spaces; "-" after a failure. */
static void expect_choice(const char *files, const struct hub_choice *choice, const char *wanted,
                          const char *first)
{
    struct hub_listing l = {0};
    const struct hub_file *gguf = NULL;
    char *copy = mem_strdup(files), *rest = NULL;
    struct buf found;
    enum osp_status st;

    buf_init(&found, 4096);
    for (char *word = strtok_r(copy, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        assert_int_equal(hub_listing_add(&l, word, 1), OSP_OK);
    st = hub_choose(&gguf, &l, choice, "hub");
    for (size_t i = 0; i < l.n; i++)
        if (l.files[i].is_wanted)
            buf_printf(&found, "%s%s", found.size_bytes ? " " : "", l.files[i].path);
    assert_string_equal(st == OSP_OK ? buf_text(&found) : "-", wanted);
    if (first)
        assert_string_equal(gguf ? gguf->path : "", first);
    buf_release(&found);
    hub_listing_release(&l);
    free(copy);
}

static void test_choice_of_safetensors(void **state)
{
    const char *files = ".gitattributes LICENSE README.md chat_template.jinja config.json "
                        "generation_config.json metal/model.bin model-00000-of-00001.safetensors "
                        "model.safetensors.index.json original/config.json "
                        "original/model.safetensors special_tokens_map.json tokenizer.json "
                        "tokenizer_config.json";

    (void)state;
    expect_choice(files, &(struct hub_choice){0},
                  "chat_template.jinja config.json generation_config.json "
                  "model-00000-of-00001.safetensors model.safetensors.index.json "
                  "special_tokens_map.json tokenizer.json tokenizer_config.json",
                  "");
    expect_choice("config.json model.safetensors original/a metal/b README.md",
                  &(struct hub_choice){.include = "README*,original/*"},
                  "config.json model.safetensors original/a README.md", "");
    expect_choice("config.json pytorch_model.bin", &(struct hub_choice){0}, "-", NULL);
    expect_choice(files, &(struct hub_choice){.tag = "Q8_0"}, "-", NULL);
}

static void test_choice_of_gguf(void **state)
{
    const char *unsloth = "README.md UD-Q8_K_XL/m-UD-Q8_K_XL-00001-of-00002.gguf "
                          "UD-Q8_K_XL/m-UD-Q8_K_XL-00002-of-00002.gguf config.json "
                          "m-BF16.gguf m-F16.gguf m-Q4_K_M.gguf m-Q8_0.gguf "
                          "m-UD-Q4_K_M.gguf mmproj-F16.gguf";

    (void)state;
    expect_choice(unsloth, &(struct hub_choice){0}, "m-Q4_K_M.gguf", "m-Q4_K_M.gguf");
    expect_choice(unsloth, &(struct hub_choice){.tag = "q8_0"}, "m-Q8_0.gguf", NULL);
    expect_choice(unsloth, &(struct hub_choice){.tag = "F16"}, "m-F16.gguf", NULL);
    expect_choice(unsloth, &(struct hub_choice){.tag = "_0"}, "m-Q8_0.gguf", NULL); /* not a word */
    expect_choice(unsloth, &(struct hub_choice){.tag = "UD-Q8_K_XL"},
                  "UD-Q8_K_XL/m-UD-Q8_K_XL-00001-of-00002.gguf "
                  "UD-Q8_K_XL/m-UD-Q8_K_XL-00002-of-00002.gguf",
                  "UD-Q8_K_XL/m-UD-Q8_K_XL-00001-of-00002.gguf");
    expect_choice(unsloth, &(struct hub_choice){.tag = "Q2_K"}, "-", NULL);
    assert_non_null(strstr(fail_message(), "m-F16.gguf"));
    expect_choice(unsloth, &(struct hub_choice){.file = "M-f16.gguf"}, "m-F16.gguf", NULL);
    expect_choice(unsloth, &(struct hub_choice){.file = "m-F32.gguf"}, "-", NULL);
    expect_choice("gpt-oss-20b-mxfp4.gguf", &(struct hub_choice){0}, "gpt-oss-20b-mxfp4.gguf",
                  NULL);
    expect_choice("m-00001-of-00003.gguf m-00003-of-00003.gguf", &(struct hub_choice){0}, "-",
                  NULL);
    expect_choice("m-0000x-of-00003.gguf", &(struct hub_choice){0}, "m-0000x-of-00003.gguf", NULL);
    expect_choice("model.safetensors config.json m-Q4_K_M.gguf", &(struct hub_choice){0},
                  "model.safetensors config.json", "");
}

/* ---- partial downloads ---- */

static void digest_of(uint8_t out[HUB_DIGEST_BYTES_MAX], const void *bytes, size_t n_bytes)
{
    struct hub_digest d = {0};

    assert_int_equal(hub_digest_start_sha256(&d), OSP_OK);
    hub_digest_add(&d, bytes, n_bytes);
    assert_int_equal(hub_digest_finish(&d, out), HUB_DIGEST_BYTES_MAX);
}

static void test_digests(void **state)
{
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    char text[HUB_ETAG_BYTES_MAX + 1];
    struct hub_digest d = {0};

    (void)state;
    assert_int_equal(hub_digest_start(&d, SHA1, 6), OSP_OK);
    hub_digest_add(&d, "hello\n", 6);
    hub_digest_text(text, digest, hub_digest_finish(&d, digest));
    assert_string_equal(text, "ce013625030ba8dba906f756967f9e9ca394464a"); /* git hash-object */
    digest_of(digest, "hello\n", 6);
    hub_digest_text(text, digest, sizeof digest);
    assert_string_equal(text, "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03");
}

enum { PART_BYTES = 2 * PART_BLOCK_BYTES + 1000 };

/* A block that was written and marked is inherited by the next run, whatever happened to the
 * journal's end. */
static void test_part_file(void **state)
{
    static const char *const damage[] = {"true", "printf '0000000' >>" SHA256 ".osprey-blocks",
                                         "printf '00000001 zz' >>" SHA256 ".osprey-blocks",
                                         "head -c 4096 /dev/zero >>" SHA256 ".osprey-blocks"};
    uint8_t digest[HUB_DIGEST_BYTES_MAX];
    char bytes[1000], again[1000];
    struct part_file p;

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    digest_of(digest, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_OK);
        assert_int_equal(p.n_blocks, 3);
        assert_int_equal(part_file_block_bytes(&p, 2), 1000);
        assert_int_equal(p.states[2], i == 0 ? PART_MISSING : PART_INHERITED);
        if (i == 0) {
            assert_int_equal(part_file_write(&p, 2 * PART_BLOCK_BYTES, bytes, sizeof bytes),
                             OSP_OK);
            assert_int_equal(part_file_mark(&p, 2, digest), OSP_OK);
        }
        part_file_close(&p);
        run_in_folder(damage[i]);
    }
    assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_OK);
    assert_int_equal(p.states[0], PART_MISSING);
    assert_int_equal(p.states[1], PART_MISSING);
    assert_int_equal(p.states[2], PART_INHERITED);
    assert_memory_equal(p.digests[2], digest, sizeof digest);
    assert_int_equal(part_file_read(&p, 2 * PART_BLOCK_BYTES, again, sizeof again), OSP_OK);
    assert_memory_equal(again, bytes, sizeof bytes);
    assert_int_equal(part_file_reset(&p), OSP_OK);
    assert_int_equal(p.states[2], PART_MISSING);
    part_file_close(&p);
    assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_OK);
    assert_int_equal(p.states[2], PART_MISSING);
    part_file_close(&p);
}

/* Journals of something else, lost data, planted links. */
static void test_part_file_of_others(void **state)
{
    static const char *const scripts[] = {
        "rm " SHA256 ".osprey-part",
        "truncate -s 5 " SHA256 ".osprey-part",
        "sed -i 's/^osprey-part 1/osprey-part 2/' " SHA256 ".osprey-blocks",
        "sed -i 's/^osprey-part 1 ./osprey-part 1 a/' " SHA256 ".osprey-blocks",
        "printf 'x' >" SHA256 ".osprey-blocks",
        "sed -i 's/^00000002/ffffffff/' " SHA256 ".osprey-blocks",
    };
    uint8_t digest[HUB_DIGEST_BYTES_MAX] = {1};
    struct part_file p;

    (void)state;
    for (size_t i = 0; i < sizeof scripts / sizeof scripts[0]; i++) {
        assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_OK);
        assert_int_equal(p.states[2], PART_MISSING);
        assert_int_equal(part_file_mark(&p, 2, digest), OSP_OK);
        part_file_close(&p);
        run_in_folder(scripts[i]);
    }
    assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_OK);
    assert_int_equal(p.states[2], PART_MISSING);
    part_file_close(&p);
    run_in_folder("echo precious >kept && rm " SHA256 ".osprey-part && "
                  "ln -s kept " SHA256 ".osprey-part");
    assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_EIO);
    run_in_folder("rm " SHA256 ".osprey-part && ln kept " SHA256 ".osprey-part");
    assert_int_equal(part_file_open(&p, folder, SHA256, PART_BYTES), OSP_EIO);
    run_in_folder("test \"$(cat kept)\" = precious");
}

/* ---- locks ---- */

static void test_locks(void **state)
{
    char *path = path_join(folder, "a.lock");
    int first = -1, second = -1;

    (void)state;
    assert_int_equal(hub_lock_try(&first, path), OSP_OK);
    assert_true(first >= 0);
    assert_int_equal(hub_lock_try(&second, path), OSP_OK);
    assert_int_equal(second, -1);
    hub_lock_release(&first);
    assert_int_equal(hub_lock_try(&second, path), OSP_OK);
    assert_true(second >= 0);
    assert_int_equal(unlink(path), 0); /* another file of that name is another lock */
    assert_int_equal(hub_lock_try(&first, path), OSP_OK);
    assert_true(first >= 0);
    hub_lock_release(&first);
    hub_lock_release(&second);
    run_in_folder("ln -sf /tmp/elsewhere a.lock");
    assert_int_equal(hub_lock_try(&first, path), OSP_EIO);
    free(path);
}

/* ---- the cache ---- */

static enum osp_status find(char **out, const char *cache, const char *word, const char *revision)
{
    const struct hub_choice choice = {0};
    char *given = hub_cache_folder(cache);
    struct hub_name name;
    enum osp_status st = hub_name_parse(&name, word, revision);

    *out = NULL;
    if (st == OSP_OK)
        st = hub_cache_find(out, given, &name, &choice);
    free(given);
    return st;
}

static void expect_found(const char *cache, const char *word, const char *revision,
                         const char *below)
{
    char *found, *want = mem_printf("%s/hub/models--openai--m/snapshots/%s", folder, below);

    assert_int_equal(find(&found, cache, word, revision), OSP_OK);
    assert_string_equal(found, want);
    free(found);
    free(want);
}

static void test_cache(void **state)
{
    char *cache = path_join(folder, "hub"), *found;

    (void)state;
    run_in_folder(
        "mkdir -p hub/models--openai--m/refs/pr hub/models--openai--m/snapshots/c1 "
        "hub/models--openai--m/snapshots/c2 hub/models--openai--m/snapshots/torn "
        "hub/models--openai--m/snapshots/part hub/models--openai--m/snapshots/g && "
        "cd hub/models--openai--m && echo c1 >refs/main && printf c2 >refs/pr/1 && "
        "echo ../../c1 >refs/bad && touch snapshots/c1/config.json snapshots/c2/config.json "
        "snapshots/c1/model.safetensors snapshots/c2/model.safetensors snapshots/part/config.json "
        "snapshots/g/config.json snapshots/g/m-Q8_0.gguf snapshots/g/m-Q4_K_M.gguf "
        "snapshots/g/m-F16-00002-of-00002.gguf snapshots/g/m-BF16-00001-of-00002.gguf && "
        "ln -s ../../blobs/lost snapshots/part/model.safetensors");
    expect_found(cache, "openai/m", NULL, "c1");
    expect_found(cache, "openai/m", "pr/1", "c2");
    expect_found(cache, "openai/m@pr/1", NULL, "c2");
    expect_found(cache, "openai/m", "c2", "c2");
    expect_found(cache, "openai/m@g", NULL, "g/m-Q4_K_M.gguf");
    expect_found(cache, "openai/m:Q8_0@g", NULL, "g/m-Q8_0.gguf");
    assert_int_equal(find(&found, cache, "openai/m:Q8_0", NULL), OSP_ENOTFOUND);
    assert_int_equal(find(&found, cache, "openai/m:Q2_K", "g"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "openai/m:Q2_K@g in the local Hugging Face cache: no "
                                           "GGUF file with the tag Q2_K; available: "));
    assert_int_equal(find(&found, cache, "openai/m:F16", "g"), OSP_ENOTFOUND);
    assert_int_equal(find(&found, cache, "openai/m:BF16", "g"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "m-BF16-00001-of-00002.gguf: 1 of the model's 2 parts"));
    assert_int_equal(find(&found, cache, "openai/m", "torn"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "openai/m@torn is not in the local Hugging Face cache"));
    assert_int_equal(find(&found, cache, "openai/m", "part"), OSP_ENOTFOUND);
    assert_non_null(strstr(fail_message(), "only a part of this model"));
    assert_int_equal(find(&found, cache, "openai/m", "bad"), OSP_ENOTFOUND);
    assert_int_equal(find(&found, cache, "openai/m", "../x"), OSP_EINVAL);
    assert_int_equal(find(&found, cache, "openai/n", NULL), OSP_ENOTFOUND);

    setenv("HF_HUB_CACHE", cache, 1);
    setenv("HF_HOME", "/nowhere", 1);
    expect_found(NULL, "openai/m", NULL, "c1");
    unsetenv("HF_HUB_CACHE");
    setenv("HF_HOME", folder, 1);
    expect_found(NULL, "openai/m", NULL, "c1");
    unsetenv("HF_HOME");
    free(cache);
}

/* A folder of the snapshot that is a link leads nowhere. */
static void test_planted_links(void **state)
{
    struct hub_listing l = {0};
    struct hub_model_paths paths;

    (void)state;
    hub_model_paths_init(&paths, folder, "openai/m");
    assert_int_equal(hub_cache_make_folders(&paths), OSP_OK);
    assert_int_equal(hub_listing_add(&l, "config.json", 1), OSP_OK);
    assert_int_equal(hub_listing_add(&l, "original/config.json", 1), OSP_OK);
    for (size_t i = 0; i < l.n; i++) {
        l.files[i].is_wanted = true;
        memcpy(l.files[i].etag, SHA1, sizeof SHA1);
    }
    run_in_folder("mkdir -p outside models--openai--m/snapshots/" COMMIT
                  " && ln -s ../../../outside models--openai--m/snapshots/" COMMIT "/original");
    assert_int_equal(hub_cache_publish(&paths, &l, COMMIT, "main"), OSP_EIO);
    run_in_folder("test -z \"$(ls outside)\" && test ! -e models--openai--m/refs/main");
    run_in_folder("rm models--openai--m/snapshots/" COMMIT "/original");
    assert_int_equal(hub_cache_publish(&paths, &l, COMMIT, "refs/pr/1"), OSP_OK);
    run_in_folder("cd models--openai--m && test \"$(cat refs/refs/pr/1)\" = " COMMIT
                  " && test \"$(readlink snapshots/" COMMIT
                  "/original/config.json)\" = ../../../blobs/" SHA1);
    hub_listing_release(&l);
    hub_model_paths_release(&paths);
}

/* ---- settings ---- */

static void test_settings(void **state)
{
    struct hub_settings s;

    (void)state;
    setenv("HF_HOME", folder, 1);
    unsetenv("HF_TOKEN");
    unsetenv("HF_ENDPOINT");
    run_in_folder("printf ' hf_abc\\n' >token");
    assert_int_equal(hub_settings_read(&s, NULL), OSP_OK);
    assert_string_equal(s.endpoint, "https://huggingface.co");
    assert_string_equal(s.token, "hf_abc");
    assert_false(s.offline);
    hub_settings_release(&s);
    setenv("HF_TOKEN", "hf_env", 1);
    setenv("HF_ENDPOINT", "http://127.0.0.1:8080/hub//", 1);
    setenv("HF_HUB_OFFLINE", "YES", 1);
    assert_int_equal(hub_settings_read(&s, NULL), OSP_OK);
    assert_string_equal(s.endpoint, "http://127.0.0.1:8080/hub");
    assert_string_equal(s.token, "hf_env");
    assert_true(s.offline);
    hub_settings_release(&s);
    assert_int_equal(hub_settings_read(&s, "two words"), OSP_EINVAL);
    assert_int_equal(hub_settings_read(&s, "a\r\nX-Evil:1"), OSP_EINVAL);
    setenv("HF_ENDPOINT", "ftp://x", 1);
    assert_int_equal(hub_settings_read(&s, NULL), OSP_EINVAL);
    setenv("HF_ENDPOINT", "https://user@host", 1);
    assert_int_equal(hub_settings_read(&s, NULL), OSP_EINVAL);
    unsetenv("HF_ENDPOINT");
    setenv("HF_HUB_DOWNLOAD_TIMEOUT", "0", 1);
    assert_int_equal(hub_settings_read(&s, NULL), OSP_EINVAL);
    unsetenv("HF_HUB_DOWNLOAD_TIMEOUT");
    unsetenv("HF_HUB_OFFLINE");
    unsetenv("HF_HOME");
}

/* ---- the progress line ---- */

static void test_progress_line(void **state)
{
    struct osp_pull_progress p = {.repo = "a/b",
                                  .total_bytes = 13800000000,
                                  .done_bytes = 3100000000,
                                  .n_files = 15,
                                  .n_files_done = 4};
    char line[PULL_LINE_BYTES_MAX], time[PULL_TIME_BYTES_MAX];

    (void)state;
    pull_format_line(line, &p, 118e6);
    assert_string_equal(line,
                        "a/b: 3.1 GB of 13.8 GB, 22 %, 118.0 MB/s, 1 min 31 s left, 4 of 15 files");
    p.n_waiting = 2;
    pull_format_line(line, &p, 0);
    assert_string_equal(line, "a/b: 3.1 GB of 13.8 GB, 22 %, 4 of 15 files (2 by another process)");
    assert_string_equal(pull_format_time(time, 4.4), "4 s");
    assert_string_equal(pull_format_time(time, 7500), "2 h 05 min");
    assert_string_equal(pull_format_time(time, 1e18), "100 h 00 min");
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

UNIT_MAIN(cmocka_unit_test(test_names), cmocka_unit_test(test_name_parts),
          cmocka_unit_test(test_paths), cmocka_unit_test(test_header_values),
          cmocka_unit_test(test_hostile_headers), cmocka_unit_test(test_retry_times),
          cmocka_unit_test(test_where_the_token_goes), cmocka_unit_test(test_listing),
          cmocka_unit_test(test_hostile_listings), cmocka_unit_test(test_commit),
          cmocka_unit_test(test_choice_of_safetensors), cmocka_unit_test(test_choice_of_gguf),
          cmocka_unit_test(test_digests), IN_FOLDER(test_part_file),
          IN_FOLDER(test_part_file_of_others), IN_FOLDER(test_locks), IN_FOLDER(test_cache),
          IN_FOLDER(test_planted_links), IN_FOLDER(test_settings),
          cmocka_unit_test(test_progress_line))
