#include "base/host_file.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"

/* The path below the root; false if it is too long. */
static bool path_of(char out[HOST_PATH_BYTES], const char *root, const char *format, va_list args)
{
    const int n_root = snprintf(out, HOST_PATH_BYTES, "%s", root);
    int n;

    if (n_root < 0 || n_root >= HOST_PATH_BYTES)
        return false;
    n = vsnprintf(out + n_root, (size_t)(HOST_PATH_BYTES - n_root), format, args);
    return n >= 0 && n < HOST_PATH_BYTES - n_root;
}

static bool read_line(struct host_line *out, const char *path)
{
    FILE *f = fopen(path, "re");
    size_t n;

    out->text[0] = '\0';
    if (f == NULL)
        return false;
    if (fgets(out->text, sizeof out->text, f) == NULL)
        out->text[0] = '\0';
    fclose(f);
    n = strlen(out->text);
    while (n > 0 && strchr(" \t\n", out->text[n - 1]) != NULL)
        out->text[--n] = '\0';
    return n > 0;
}

bool host_line(struct host_line *out, const char *root, const char *format, ...)
{
    char path[HOST_PATH_BYTES];
    va_list args;
    bool ok;

    out->text[0] = '\0';
    va_start(args, format);
    ok = path_of(path, root, format, args);
    va_end(args);
    return ok && read_line(out, path);
}

bool host_number(int64_t *out, const char *root, const char *format, ...)
{
    char path[HOST_PATH_BYTES], *end;
    struct host_line line;
    va_list args;
    bool ok;

    va_start(args, format);
    ok = path_of(path, root, format, args);
    va_end(args);
    if (!ok || !read_line(&line, path))
        return false;
    *out = strtoll(line.text, &end, 10);
    return end != line.text;
}

bool host_keyed(int64_t *out, const char *root, const char *path, const char *key)
{
    char *whole = mem_printf("%s%s", root, path);
    FILE *f = fopen(whole, "re");
    char line[HOST_LINE_BYTES];
    bool found = false;

    free(whole);
    if (f == NULL)
        return false;
    while (!found && fgets(line, sizeof line, f) != NULL) {
        found = strncmp(line, key, strlen(key)) == 0;
        if (found)
            *out = strtoll(line + strlen(key), NULL, 10);
    }
    fclose(f);
    return found;
}

bool host_exists(const char *root, const char *format, ...)
{
    char path[HOST_PATH_BYTES];
    va_list args;
    bool ok;

    va_start(args, format);
    ok = path_of(path, root, format, args);
    va_end(args);
    return ok && access(path, F_OK) == 0;
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

int host_list(char **names, int n_max, const char *root, const char *path)
{
    char *whole = mem_printf("%s%s", root, path);
    DIR *folder = opendir(whole);
    struct dirent *entry;
    int n = 0;

    free(whole);
    if (folder == NULL)
        return 0;
    while (n < n_max && (entry = readdir(folder)) != NULL)
        if (entry->d_name[0] != '.')
            names[n++] = mem_strdup(entry->d_name);
    closedir(folder);
    qsort(names, (size_t)n, sizeof *names, compare_names);
    return n;
}
