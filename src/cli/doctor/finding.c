#include "cli/doctor/finding.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/printable.h"
#include "osprey.h"

enum { TEXT_BYTES_MAX = 1024 };

static const char *const STATES[N_FINDING_STATES] = {
#define FINDING_STATE(name) #name,
    FINDING_STATE_LIST(FINDING_STATE)
#undef FINDING_STATE
};

/* Names of interfaces, models and hosts come from outside. */
static char *shown(const char *format, va_list args)
{
    char text[TEXT_BYTES_MAX];

    vsnprintf(text, sizeof text, format, args);
    return printable_new(text);
}

void finding_add(struct findings *f, enum finding_state state, const char *subject,
                 const char *format, ...)
{
    struct finding *one;
    va_list args;

    mem_grow(&f->list, f->n, &f->n_max, sizeof *f->list);
    one = &f->list[f->n++];
    *one = (struct finding){.state = state, .group = f->group, .subject = printable_new(subject)};
    va_start(args, format);
    one->text = shown(format, args);
    va_end(args);
}

void finding_advise(struct findings *f, const char *format, ...)
{
    struct finding *one = &f->list[f->n - 1];
    va_list args;

    free(one->advice);
    va_start(args, format);
    one->advice = shown(format, args);
    va_end(args);
}

void findings_release(struct findings *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->list[i].subject);
        free(f->list[i].text);
        free(f->list[i].advice);
    }
    free(f->list);
    *f = (struct findings){0};
}

int findings_count(const struct findings *f, enum finding_state state)
{
    int n = 0;

    for (size_t i = 0; i < f->n; i++)
        n += f->list[i].state == state;
    return n;
}

void findings_put_text(struct buf *out, const struct findings *f)
{
    const char *group = "";

    for (size_t i = 0; i < f->n; i++) {
        const struct finding *one = &f->list[i];

        if (strcmp(group, one->group) != 0)
            buf_printf(out, "%s%s\n", i > 0 ? "\n" : "", one->group);
        group = one->group;
        buf_printf(out, "  %-8s  %-20s  %s\n", STATES[one->state], one->subject, one->text);
        if (one->advice != NULL)
            buf_printf(out, "  %-8s  %-20s  -> %s\n", "", "", one->advice);
    }
    buf_printf(out, "\n%d good, %d slow, %d broken, %d untested\n", findings_count(f, FINDING_good),
               findings_count(f, FINDING_slow), findings_count(f, FINDING_broken),
               findings_count(f, FINDING_untested));
}

static void put_member(struct buf *out, const char *before, const char *text)
{
    buf_puts(out, before);
    buf_json_string(out, text, strlen(text));
}

void findings_put_json(struct buf *out, const struct findings *f)
{
    put_member(out, "{\"version\":", OSP_VERSION);
    for (int state = 0; state < N_FINDING_STATES; state++)
        buf_printf(out, ",\"%s\":%d", STATES[state], findings_count(f, (enum finding_state)state));
    buf_puts(out, ",\"findings\":[");
    for (size_t i = 0; i < f->n; i++) {
        const struct finding *one = &f->list[i];

        put_member(out, i > 0 ? ",{\"group\":" : "{\"group\":", one->group);
        put_member(out, ",\"subject\":", one->subject);
        put_member(out, ",\"state\":", STATES[one->state]);
        put_member(out, ",\"text\":", one->text);
        if (one->advice != NULL)
            put_member(out, ",\"advice\":", one->advice);
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}
