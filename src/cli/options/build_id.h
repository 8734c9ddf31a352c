/* The source version that this program was built from, for reports. */
#ifndef CLI_OPTIONS_BUILD_ID_H
#define CLI_OPTIONS_BUILD_ID_H

/* The output of `git describe` at build time; "unknown" outside of a repository. */
const char *build_id(void);

#endif
