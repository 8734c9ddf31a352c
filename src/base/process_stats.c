#include "base/process_stats.h"

#include <dirent.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

static int64_t count_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int64_t n = 0;

    if (!folder)
        return 0;
    for (const struct dirent *e; (e = readdir(folder)) != NULL;)
        n += e->d_name[0] != '.';
    closedir(folder);
    return n > 0 ? n - 1 : 0; /* without the descriptor of the folder itself */
}

static void read_memory(struct process_stats *out)
{
    long page_bytes = sysconf(_SC_PAGESIZE), n_virtual, n_resident;
    FILE *file = fopen("/proc/self/statm", "re");

    if (!file)
        return;
    if (fscanf(file, "%ld %ld", &n_virtual, &n_resident) == 2) {
        out->virtual_bytes = (int64_t)n_virtual * page_bytes;
        out->resident_bytes = (int64_t)n_resident * page_bytes;
    }
    fclose(file);
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

void process_stats_read(struct process_stats *out)
{
    struct rusage usage;

    *out = (struct process_stats){.n_files = count_files()};
    read_memory(out);
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_seconds = seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}
