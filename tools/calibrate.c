/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ferry calibrate: measures this machine and keeps the rates for the engine.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pager/decide/cost.h"
#include "tools/tool.h"

/* Complete or unchanged: written under another name, then renamed. */
static int
write_rates(const char *path, const struct fy_rates *host,
            const struct fy_rates *card)
{
    char temporary[PATH_MAX];
    int n =
        snprintf(temporary, sizeof temporary, "%s.%ld", path, (long)getpid());
    if (n < 0 || n >= PATH_MAX) {
        return FY_ERR_OVERFLOW;
    }
    FILE *file = fopen(temporary, "we");
    if (!file) {
        return FY_ERR_IO;
    }
    int status = fy_rates_write(file, "host", host);
    if (status == FY_OK && card) {
        status = fy_rates_write(file, "cuda", card);
    }
    if (fclose(file) != 0 || status || rename(temporary, path) != 0) {
        int cause = errno;
        unlink(temporary);
        errno = cause;
        return FY_ERR_IO;
    }
    return 0;
}

int
fy_tool_calibrate(int argc, char **argv)
{
    struct fy_settings settings;
    struct fy_rates rates, card;
    char config[PATH_MAX];
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        printf("Usage: ferry calibrate\n"
               "Measures this machine's rates, which 'ferry run' decides "
               "with.\n");
        return fy_finish_output(FY_EXIT_OK);
    }
    if (argc != 1) {
        fy_say("calibrate takes no arguments");
        return fy_usage_error("calibrate");
    }
    fy_settings_init(&settings);
    fy_config_path(config);
    fy_config_read(config, &settings);
    fy_calibration_path(&settings);
    if (!settings.calibration[0]) {
        fy_say("there is no private folder for the rates");
        return FY_EXIT_FAILURE;
    }
    int status = fy_calibrate_measure("host", &rates);
    if (status) {
        fy_say("cannot measure the host device: %s", fy_status_text(status));
        return FY_EXIT_FAILURE;
    }
    int found = fy_device_find("cuda") ? fy_calibrate_measure("cuda", &card)
                                       : FY_ERR_NOENT;
    if (write_rates(settings.calibration, &rates, found ? NULL : &card)) {
        fy_say("cannot write %s: %s", settings.calibration, strerror(errno));
        return FY_EXIT_FAILURE;
    }
    printf("# %s\n", settings.calibration);
    status = fy_rates_write(stdout, "host", &rates);
    if (status == FY_OK && found == FY_OK) {
        status = fy_rates_write(stdout, "cuda", &card);
    } else if (status == FY_OK) {
        printf("# no CUDA device was measured: %s\n", fy_status_text(found));
    }
    return fy_finish_output(status ? FY_EXIT_FAILURE : FY_EXIT_OK);
}
