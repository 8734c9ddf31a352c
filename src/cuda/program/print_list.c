/* Prints launch lists in columns that are as wide as the list needs. */
#include "cuda/program/print_list.h"

#include <string.h>

#include "cuda/launch/workspaces.h"

enum {
    TEXT_BYTES = 192,    /* of a column */
    TOUCHED_BYTES = 384, /* of the column of tensors */
    N_COLUMNS = 8        /* before the tensors */
};

struct line {
    char columns[N_COLUMNS][TEXT_BYTES];
    char touched[TOUCHED_BYTES];
};

const char *workspace_name(int workspace)
{
#define WORKSPACE_NAME(name) #name,
    static const char *const names[] = {WORKSPACE_LIST(WORKSPACE_NAME)};
#undef WORKSPACE_NAME

    return names[workspace];
}

/* ---- stages ---- */

/* The op that takes the weight, from the launch's op on, or else the nearest before it. */
static int op_of_weight(const struct program *p, const struct launch *l, int tensor)
{
    for (int i = l->op; i < p->n_ops; i++)
        if (program_access(p, i, tensor) != N_ACCESSES)
            return i;
    for (int i = l->op - 1; i >= 0; i--)
        if (program_access(p, i, tensor) != N_ACCESSES)
            return i;
    return l->op;
}

static bool is_op_touched(const struct launch_list *list, const struct program *p, int launch,
                          int op)
{
    for (int i = 0; i < list->n_touches; i++) {
        const struct touch *t = &list->touches[i];

        if (t->launch != launch || t->tensor == 0)
            continue;
        if (op ==
            (t->kind == TOUCH_EARLY ? op_of_weight(p, &list->launches[launch], t->tensor) : t->op))
            return true;
    }
    return op == list->launches[launch].op;
}

static void append(char *text, size_t size_bytes, const char *separator, const char *more)
{
    const size_t n = strlen(text);

    (void)snprintf(text + n, size_bytes - n, "%s%s", n > 0 ? separator : "", more);
}

static void print_stages(char out[TEXT_BYTES], const struct launch_list *list,
                         const struct program *p, int launch)
{
    out[0] = '\0';
    for (int op = 0; op < p->n_ops; op++)
        if (is_op_touched(list, p, launch, op))
            append(out, TEXT_BYTES, "+", stage_names[p->ops[op].stage]);
}

/* ---- tensors ---- */

/* "wqkv" of "wqkv[0]": three matrices count as one. */
static void name_of(char out[TEXT_BYTES], const struct program *p, const struct touch *t)
{
    if (t->tensor > 0)
        (void)snprintf(out, TEXT_BYTES, "%s", p->tensors[t->tensor - 1].name);
    else
        (void)snprintf(out, TEXT_BYTES, "ws:%s", workspace_name(t->workspace));
    out[strcspn(out, "[")] = '\0';
}

static bool has_word(const char *words, const char *word)
{
    const size_t n = strlen(word);

    for (const char *at = strstr(words, word); at != NULL; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    return false;
}

/* Adds the names of what the launch touches so. */
static void print_kind(char out[TEXT_BYTES], const struct launch_list *list,
                       const struct program *p, int launch, enum touch_kind kind)
{
    char name[TEXT_BYTES];

    for (int i = 0; i < list->n_touches; i++) {
        if (list->touches[i].launch != launch || list->touches[i].kind != kind)
            continue;
        name_of(name, p, &list->touches[i]);
        if (!has_word(out, name))
            append(out, TEXT_BYTES, " ", name);
    }
}

static void print_touched(char out[TOUCHED_BYTES], const struct launch_list *list,
                          const struct program *p, int launch)
{
    char early[TEXT_BYTES] = "", read[TEXT_BYTES] = "", written[TEXT_BYTES] = "";

    print_kind(list->launches[launch].is_dependent ? early : read, list, p, launch, TOUCH_EARLY);
    print_kind(read, list, p, launch, TOUCH_READ);
    print_kind(written, list, p, launch, TOUCH_WRITE);
    out[0] = '\0';
    if (early[0] != '\0') {
        append(out, TOUCHED_BYTES, "", "(");
        append(out, TOUCHED_BYTES, "", early);
        append(out, TOUCHED_BYTES, "", ")");
    }
    if (read[0] != '\0')
        append(out, TOUCHED_BYTES, " ", read);
    append(out, TOUCHED_BYTES, " ", "->");
    append(out, TOUCHED_BYTES, " ", written);
}

/* ---- lines ---- */

/* "132", "18x8" or "18x8x2". */
static void print_dims(char out[TEXT_BYTES], const uint32_t d[3])
{
    if (d[2] > 1)
        (void)snprintf(out, TEXT_BYTES, "%ux%ux%u", d[0], d[1], d[2]);
    else if (d[1] > 1)
        (void)snprintf(out, TEXT_BYTES, "%ux%u", d[0], d[1]);
    else
        (void)snprintf(out, TEXT_BYTES, "%u", d[0]);
}

static void make_line(struct line *out, const struct launch_list *list, const struct program *p,
                      int launch)
{
    const struct launch *l = &list->launches[launch];
    const int layer = p->ops[l->op].layer;

    print_stages(out->columns[0], list, p, launch);
    (void)snprintf(out->columns[1], TEXT_BYTES, layer == NO_LAYER ? "-" : "%d", layer);
    (void)snprintf(out->columns[2], TEXT_BYTES, "%s", l->name);
    print_dims(out->columns[3], l->grid);
    print_dims(out->columns[4], l->block);
    (void)snprintf(out->columns[5], TEXT_BYTES, "%u", l->shared_bytes);
    (void)snprintf(out->columns[6], TEXT_BYTES, l->cluster > 1 ? "%u" : "-", l->cluster);
    (void)snprintf(out->columns[7], TEXT_BYTES, "%s", l->is_dependent ? "PDL" : "-");
    print_touched(out->touched, list, p, launch);
}

static const struct line header = {
    .columns = {"stages", "L", "kernel", "grid", "block", "shared", "clu", "PDL"},
    .touched = "(early reads) reads -> writes",
};

static void widen(int widths[N_COLUMNS], const struct line *line)
{
    for (int c = 0; c < N_COLUMNS; c++) {
        const int n = (int)strlen(line->columns[c]);

        widths[c] = n > widths[c] ? n : widths[c];
    }
}

static void print_line(FILE *out, const char *number, const struct line *line,
                       const int widths[N_COLUMNS])
{
    static const bool is_number[N_COLUMNS] = {[1] = true, [3] = true, [4] = true, [5] = true};

    (void)fprintf(out, "%3s", number);
    for (int c = 0; c < N_COLUMNS; c++)
        (void)fprintf(out, " %*s", is_number[c] ? widths[c] : -widths[c], line->columns[c]);
    (void)fprintf(out, " %s\n", line->touched);
}

void launch_list_print(FILE *out, const struct launch_list *list, const struct program *p)
{
    int widths[N_COLUMNS] = {0};
    struct line line;
    char number[16];

    widen(widths, &header);
    for (int i = 0; i < list->n; i++) {
        make_line(&line, list, p, i);
        widen(widths, &line);
    }
    print_line(out, "#", &header, widths);
    for (int i = 0; i < list->n; i++) {
        make_line(&line, list, p, i);
        (void)snprintf(number, sizeof(number), "%d", i);
        print_line(out, number, &line, widths);
    }
}
