/* `osprey bench --matrix FILE`: reads the file and lists its combinations. A line has an option and
 * its values, "--threads 1 2"; an option alone is run without and with; # begins a comment. */
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "cli/bench/bench.h"

static const char BLANKS[] = " \t\r";

static enum osp_status add_value(struct matrix_axis *a, const char *word, size_t n_bytes,
                                 const char *name, int line)
{
    if (a->n_values == MATRIX_VALUES_MAX)
        return fail(OSP_ELIMIT, "%s, line %d: %s has more than %d values", name, line, a->flag,
                    (int)MATRIX_VALUES_MAX);
    a->values[a->n_values++] = mem_strndup(word, n_bytes);
    return OSP_OK;
}

/* An option without values: off, then on. */
static void add_switch(struct matrix_axis *a)
{
    a->values[a->n_values++] = mem_strdup("false");
    a->values[a->n_values++] = mem_strdup("true");
}

static enum osp_status parse_line(struct matrix *m, const char *s, size_t n_bytes, const char *name,
                                  int line)
{
    const char *end = s + n_bytes;
    struct matrix_axis *a = NULL;
    enum osp_status st = OSP_OK;

    for (;;) {
        size_t n;

        s += strspn(s, BLANKS);
        n = strcspn(s, " \t\r\n#");
        if (s >= end || n == 0)
            break;
        if (a != NULL) {
            TRY(add_value(a, s, n, name, line));
        } else {
            if (strncmp(s, "--", 2) != 0)
                return fail(OSP_EFORMAT,
                            "%s, line %d: begins with \"%.*s\", expected an option such as "
                            "--threads",
                            name, line, (int)n, s);
            if (m->n_axes == MATRIX_AXES_MAX)
                return fail(OSP_ELIMIT, "%s, line %d: more than the limit of %d options", name,
                            line, (int)MATRIX_AXES_MAX);
            a = &m->axes[m->n_axes++];
            a->flag = mem_strndup(s, n);
        }
        s += n;
    }
    if (a != NULL && a->n_values == 0)
        add_switch(a);
out:
    return st;
}

static enum osp_status count_cells(struct matrix *m, const char *name)
{
    m->n_cells = 1;
    for (int i = 0; i < m->n_axes; i++) {
        m->n_cells *= m->axes[i].n_values;
        if (m->n_cells > MATRIX_CELLS_MAX)
            return fail(OSP_ELIMIT, "%s: more than the limit of %d combinations", name,
                        (int)MATRIX_CELLS_MAX);
    }
    return m->n_axes > 0 ? OSP_OK
                         : fail(OSP_EFORMAT,
                                "%s: has no option; expected a line such as --threads 1 2", name);
}

enum osp_status matrix_parse(struct matrix *out, const char *text, const char *name)
{
    int line = 0;
    enum osp_status st = OSP_OK;

    *out = (struct matrix){.n_axes = 0};
    for (const char *s = text; *s != '\0';) {
        size_t n = strcspn(s, "\n");

        TRY(parse_line(out, s, n, name, ++line));
        s += n + (s[n] == '\n');
    }
    TRY(count_cells(out, name));
out:
    if (st != OSP_OK)
        matrix_release(out);
    return st;
}

void matrix_release(struct matrix *m)
{
    for (int i = 0; i < m->n_axes; i++) {
        free(m->axes[i].flag);
        for (int k = 0; k < m->axes[i].n_values; k++)
            free(m->axes[i].values[k]);
    }
    *m = (struct matrix){.n_axes = 0};
}

const char *matrix_value(const struct matrix *m, int cell, int axis)
{
    for (int i = m->n_axes - 1; i > axis; i--)
        cell /= m->axes[i].n_values;
    return m->axes[axis].values[cell % m->axes[axis].n_values];
}
