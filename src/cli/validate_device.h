/* The device part of `osprey validate`: lines that describe the device, and the check of its stages
 * against the oracle. */
#ifndef CLI_VALIDATE_DEVICE_H
#define CLI_VALIDATE_DEVICE_H

#include "cli/options/model_args.h"
#include "osprey_tools.h"

enum { VALIDATE_CHECKS_MAX = 16 };

struct device_line {
    char *key, *text;
};

struct validate_device {
    struct device_line *lines; /* (n_lines) */
    size_t n_lines, n_lines_max;
    struct osp_stage_check checks[VALIDATE_CHECKS_MAX];
    int n_checks; /* 0: not checked */
};

/* Describes the device. Checks its stages if it is a GPU or --device names it. */
CHECKED enum osp_status validate_device_read(struct validate_device *out,
                                             const struct model_args *args);
void validate_device_release(struct validate_device *d);
void validate_device_print(const struct validate_device *d);
void validate_device_print_json(const struct validate_device *d); /* members that follow others */
int validate_device_failures(const struct validate_device *d);

#endif
