/* The tools section: namespaces in order of their names, each with its functions as one-line
 * TypeScript types. All its text comes from clients and is encoded as ordinary text. Function names
 * are checked, so that a function cannot close its namespace. */
#include "text/harmony/harmony_tools.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "text/harmony/harmony_types.h"

void harmony_append_lines(struct buf *out, const char *text, const char *prefix)
{
    while (text != NULL && *text != '\0') {
        size_t n = strcspn(text, "\n");
        bool has_cr = text[n] == '\n' && n > 0 && text[n - 1] == '\r';

        buf_printf(out, "\n%s", prefix);
        buf_append(out, text, has_cr ? n - 1 : n);
        text += n + (text[n] == '\n');
    }
}

static enum osp_status append_type_line(struct buf *out, const struct harmony_tool *tool)
{
    bool absent = tool->parameters_json == NULL;
    enum osp_status st = OSP_OK;
    struct buf type;

    buf_init(&type, HARMONY_TEXT_BYTES_MAX);
    if (!absent)
        TRY(harmony_type_append(tool->parameters_json, &type, &absent));
    if (type.overflow)
        TRY(buf_failure(&type, "the type of a function"));
    buf_printf(out, "\ntype %s = (%s", tool->name, absent ? "" : "_: ");
    buf_append(out, buf_text(&type), type.size_bytes);
    buf_puts(out, ") => any;\n");
out:
    buf_release(&type);
    return st;
}

static enum osp_status append_tool(struct buf *out, const struct harmony_namespace *ns,
                                   const struct harmony_tool *tool)
{
    enum osp_status st;

    TRY(harmony_name_check(tool->name));
    harmony_append_lines(out, tool->description, "// ");
    st = append_type_line(out, tool);
    if (st != OSP_OK)
        return fail_prefix(st, "%s.%s: parameters", ns->name, tool->name);
out:
    return st;
}

static enum osp_status append_namespace(struct buf *out, const struct harmony_namespace *ns)
{
    enum osp_status st;

    TRY(harmony_name_check(ns->name));
    buf_printf(out, "\n\n## %s\n", ns->name);
    harmony_append_lines(out, ns->description, ns->n_tools > 0 ? "// " : "");
    if (ns->n_tools == 0)
        return OSP_OK;
    buf_printf(out, "\nnamespace %s {\n", ns->name);
    for (size_t i = 0; i < ns->n_tools; i++)
        TRY(append_tool(out, ns, &ns->tools[i]));
    buf_printf(out, "\n} // namespace %s", ns->name);
out:
    return st;
}

static int compare_namespaces(const void *a, const void *b)
{
    const struct harmony_namespace *const *x = a;
    const struct harmony_namespace *const *y = b;

    return strcmp((*x)->name, (*y)->name);
}

enum osp_status harmony_render_tools(const struct harmony_namespace *namespaces,
                                     size_t n_namespaces, struct buf *out)
{
    const struct harmony_namespace **sorted = NULL;
    enum osp_status st;

    TRY(mem_try_array(&sorted, n_namespaces, sizeof *sorted, "namespaces"));
    for (size_t i = 0; i < n_namespaces; i++)
        sorted[i] = &namespaces[i];
    if (n_namespaces > 1)
        qsort(sorted, n_namespaces, sizeof *sorted, compare_namespaces);
    buf_puts(out, "# Tools");
    for (size_t i = 0; i < n_namespaces; i++)
        TRY(append_namespace(out, sorted[i]));
    if (out->overflow)
        st = buf_failure(out, "the tools section");
out:
    free(sorted);
    return st;
}
