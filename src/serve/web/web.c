/* Joins the files of src/serve/web to one page with a strict content security policy: scripts
 * and styles need the nonce of this response, connections go to this server only, and nothing is
 * loaded from elsewhere. The assembler includes the files in the program (the Makefile has this
 * dependency). */
#include "serve/web/web.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/rng.h"

enum { PAGE_BYTES_MAX = 400 << 10, NONCE_BYTES = 33, POLICY_BYTES_MAX = 512 };

#define FILE_TEXT(path)   ".incbin \"src/serve/web/" path "\"\n"
#define TEXT(name, parts) name ":\n" parts ".byte 0\n"
#define SCRIPTS                                                                                    \
    FILE_TEXT("dom.js")                                                                            \
    FILE_TEXT("math_symbols.js")                                                                   \
    FILE_TEXT("math_nodes.js")                                                                     \
    FILE_TEXT("math_commands.js")                                                                  \
    FILE_TEXT("math.js")                                                                           \
    FILE_TEXT("math_fallback.js")                                                                  \
    FILE_TEXT("highlight_languages.js")                                                            \
    FILE_TEXT("highlight.js")                                                                      \
    FILE_TEXT("inline.js")                                                                         \
    FILE_TEXT("markdown.js")                                                                       \
    FILE_TEXT("stream.js")                                                                         \
    FILE_TEXT("store.js")                                                                          \
    FILE_TEXT("request.js")                                                                        \
    FILE_TEXT("chat_files.js")                                                                     \
    FILE_TEXT("speech.js")                                                                         \
    FILE_TEXT("view.js")                                                                           \
    FILE_TEXT("chats.js")                                                                          \
    FILE_TEXT("settings.js")                                                                       \
    FILE_TEXT("shortcuts.js")                                                                      \
    FILE_TEXT("health.js")                                                                         \
    FILE_TEXT("main.js")

/* clang-format off */
__asm__(".pushsection .rodata\n"
        TEXT("web_page", FILE_TEXT("page.html"))
        TEXT("web_style", FILE_TEXT("style.css"))
        TEXT("web_script", SCRIPTS)
        ".popsection\n");
/* clang-format on */
#define HERE __attribute__((visibility("hidden")))
extern HERE const char web_page[], web_style[], web_script[];

/* ---- which requests get the page ---- */

bool is_web_page_request(const struct http_request *r)
{
    const char *accept = r->fields[HTTP_ACCEPT];

    return strcmp(r->path, "/") == 0 &&
           (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0) && accept &&
           strcasestr(accept, "text/html");
}

/* ---- the page ---- */

static void make_nonce(char out[NONCE_BYTES])
{
    snprintf(out, NONCE_BYTES, "%016llx%016llx", (unsigned long long)rng_entropy(),
             (unsigned long long)rng_entropy());
}

/* The text that replaces @NAME@ in web_page. */
static const char *insertion(const char *mark, const char *nonce)
{
    if (strncmp(mark, "@NONCE@", 7) == 0)
        return nonce;
    if (strncmp(mark, "@STYLE@", 7) == 0)
        return web_style;
    return strncmp(mark, "@SCRIPT@", 8) == 0 ? web_script : NULL;
}

static void put_page(struct buf *out, const char *nonce)
{
    const char *at = web_page, *mark;

    while ((mark = strchr(at, '@')) != NULL) {
        const char *text = insertion(mark, nonce);

        buf_append(out, at, (size_t)(mark - at));
        buf_puts(out, text ? text : "@");
        at = text ? strchr(mark + 1, '@') + 1 : mark + 1;
    }
    buf_puts(out, at);
}

static void add_policy(struct http_exchange *x, const char *nonce)
{
    char policy[POLICY_BYTES_MAX];

    snprintf(policy, sizeof policy,
             "default-src 'none'; script-src 'nonce-%s'; style-src 'nonce-%s'; img-src data:; "
             "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
             "require-trusted-types-for 'script'; trusted-types 'none'",
             nonce, nonce);
    http_add_header(x, "content-security-policy", policy);
    http_add_header(x, "referrer-policy", "no-referrer");
    http_add_header(x, "cache-control", "no-store"); /* a nonce must not be used twice */
}

void web_page_respond(struct http_exchange *x)
{
    char nonce[NONCE_BYTES];
    struct buf page;

    make_nonce(nonce);
    buf_init(&page, PAGE_BYTES_MAX);
    put_page(&page, nonce);
    add_policy(x, nonce);
    http_respond(x, 200, "text/html; charset=utf-8", buf_text(&page), page.size_bytes);
    buf_release(&page);
}
