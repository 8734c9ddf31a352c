#include "cli/chat/conversation_json.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json_limits.h"
#include "base/memory.h"
#include "base/str.h"

static const struct json_limits LIMITS = {.file_bytes = CONVERSATION_FILE_BYTES_MAX,
                                          .memory_bytes = 512 << 20,
                                          .string_bytes = CONVERSATION_FILE_BYTES_MAX,
                                          .depth = 64};

/* ---- writing ---- */

static void put_member(struct buf *out, const char *name, const char *text)
{
    buf_printf(out, ",\"%s\":", name);
    buf_json_string(out, text, strlen(text));
}

static void put_message(struct buf *out, const struct chat_message *m, bool with_reasoning)
{
    buf_puts(out, "{\"role\":");
    buf_json_string(out, m->role, strlen(m->role));
    put_member(out, "content", m->content);
    if (with_reasoning && m->reasoning && *m->reasoning)
        put_member(out, "reasoning", m->reasoning);
    buf_putc(out, '}');
}

void conversation_put_messages(struct buf *out, const struct conversation *c, bool with_reasoning)
{
    buf_putc(out, '[');
    for (size_t i = 0; i < c->n; i++) {
        buf_puts(out, i > 0 ? ",\n" : "");
        put_message(out, &c->messages[i], with_reasoning);
    }
    buf_putc(out, ']');
}

static void put_file(struct buf *out, const struct conversation *c, const char *model)
{
    buf_puts(out, "{\"model\":");
    buf_json_string(out, model, strlen(model));
    if (c->effort)
        put_member(out, "reasoning_effort", c->effort);
    buf_puts(out, ",\n\"messages\":");
    conversation_put_messages(out, c, true);
    buf_puts(out, "}\n");
}

static enum osp_status cannot_write(const char *path)
{
    return fail(OSP_EIO, "%s: cannot be written: %s", path, strerror(errno));
}

/* Writes everything and closes the file. */
static enum osp_status write_all(int fd, const struct buf *text, const char *path)
{
    enum osp_status st = OSP_OK;
    size_t n_done = 0;

    while (st == OSP_OK && n_done < text->size_bytes) {
        const ssize_t n = write(fd, text->data + n_done, text->size_bytes - n_done);

        if (n > 0)
            n_done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            st = cannot_write(path);
    }
    if (close(fd) != 0 && st == OSP_OK)
        st = cannot_write(path);
    return st;
}

static enum osp_status write_new(const char *path, const struct buf *text)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    enum osp_status st;

    if (fd < 0 && errno == EEXIST)
        return fail(OSP_EINVAL, "%s: exists already; /save! %s replaces it", path, path);
    if (fd < 0)
        return cannot_write(path);
    st = write_all(fd, text, path);
    if (st != OSP_OK)
        unlink(path);
    return st;
}

/* The old file stays until the new one is complete. */
static enum osp_status write_over(const char *path, const struct buf *text)
{
    char *new_path = mem_printf("%s.XXXXXX", path);
    const int fd = mkostemp(new_path, O_CLOEXEC);
    enum osp_status st;

    if (fd < 0) {
        st = cannot_write(path);
    } else {
        st = write_all(fd, text, path);
        if (st == OSP_OK && rename(new_path, path) != 0)
            st = cannot_write(path);
        if (st != OSP_OK)
            unlink(new_path);
    }
    free(new_path);
    return st;
}

enum osp_status conversation_save(const struct conversation *c, const char *model, const char *path,
                                  bool replace)
{
    struct buf text;
    enum osp_status st;

    buf_init(&text, CONVERSATION_FILE_BYTES_MAX);
    put_file(&text, c, model);
    if (text.overflow)
        st = buf_failure(&text, path);
    else if (path_is_folder(path))
        st = fail(OSP_EINVAL, "%s: is a folder, expected a file", path);
    else
        st = replace ? write_over(path, &text) : write_new(path, &text);
    buf_release(&text);
    return st;
}

/* ---- reading ---- */

/* Where in the file: for messages. */
struct place {
    const char *path;
    size_t index;
};

static enum osp_status wrong(const struct place *p, const char *what)
{
    return fail(OSP_EFORMAT, "%s: messages[%zu]%s", p->path, p->index, what);
}

/* Appends the text of a list of parts: [{"type": "text", "text": TEXT}]. */
static enum osp_status read_parts(struct buf *out, const json_t *parts, const struct place *p)
{
    const json_t *part;
    size_t i;

    json_array_foreach(parts, i, part)
    {
        const char *type = json_string_value(json_object_get(part, "type"));
        const char *text = json_string_value(json_object_get(part, "text"));

        if (type == NULL || text == NULL || strcmp(type, "text") != 0)
            return wrong(p, ".content has a part that is not text; only text can be loaded");
        buf_puts(out, text);
    }
    return OSP_OK;
}

static enum osp_status read_content(struct buf *out, const json_t *content, const struct place *p)
{
    if (json_is_array(content))
        return read_parts(out, content, p);
    if (!json_is_string(content))
        return wrong(p, ".content is missing; expected a text or a list of text parts");
    buf_puts(out, json_string_value(content));
    return OSP_OK;
}

static const char *reasoning_of(const json_t *message)
{
    const char *reasoning = json_string_value(json_object_get(message, "reasoning"));

    return reasoning ? reasoning : json_string_value(json_object_get(message, "reasoning_content"));
}

static enum osp_status read_message(struct conversation *out, const json_t *message,
                                    const struct place *p)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    struct buf content;
    enum osp_status st;

    buf_init(&content, CONVERSATION_FILE_BYTES_MAX);
    if (role == NULL || !str_in_list("system,developer,user,assistant", role))
        return wrong(p, ".role is not one of system, developer, user and assistant");
    if (json_array_size(json_object_get(message, "tool_calls")) > 0)
        return wrong(p, " has tool calls; only texts can be loaded");
    TRY(read_content(&content, json_object_get(message, "content"), p));
    conversation_add(out, role, buf_text(&content),
                     strcmp(role, "assistant") == 0 ? reasoning_of(message) : NULL);
out:
    buf_release(&content);
    return st;
}

static enum osp_status read_document(struct conversation *out, const json_t *root, const char *path)
{
    const json_t *messages = json_is_array(root) ? root : json_object_get(root, "messages");
    const json_t *effort = json_object_get(root, "reasoning_effort"), *message;
    struct place place = {.path = path};
    enum osp_status st = OSP_OK;

    if (!json_is_array(messages))
        return fail(OSP_EFORMAT,
                    "%s: not a conversation; expected {\"messages\": [...]} or a list of messages",
                    path);
    json_array_foreach(messages, place.index, message) TRY(read_message(out, message, &place));
    if (json_is_string(effort) && conversation_set_effort(out, json_string_value(effort)) != OSP_OK)
        st = fail_prefix(OSP_EFORMAT, "%s: reasoning_effort", path);
out:
    return st;
}

static enum osp_status parse(struct conversation *out, const char *text, size_t n_bytes,
                             const char *path)
{
    json_error_t error;
    json_t *root;
    enum osp_status st;

    if (json_limits_check(&LIMITS, text, n_bytes) != OSP_OK)
        return fail_prefix(OSP_ELIMIT, "%s", path);
    root = json_loadb(text, n_bytes, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return fail(OSP_EFORMAT, "%s: line %d: not JSON: %s", path, error.line, error.text);
    st = read_document(out, root, path);
    json_decref(root);
    return st;
}

enum osp_status conversation_load(struct conversation *out, const char *path)
{
    char *text = NULL;
    size_t n_bytes;
    enum osp_status st;

    if (access(path, F_OK) == 0 && !path_is_file(path)) /* a pipe could be waited for without end */
        return fail(OSP_EINVAL, "%s: not a regular file", path);
    TRY(file_read(&text, &n_bytes, path, CONVERSATION_FILE_BYTES_MAX));
    st = parse(out, text, n_bytes, path);
    if (st != OSP_OK)
        conversation_release(out);
out:
    free(text);
    return st;
}
