# SPDX-License-Identifier: Apache-2.0
# The command that users type.
bin_PROGRAMS += ferry
ferry_SOURCES = tools/main.c tools/stack.c
ferry_LDADD = $(FYTOOLS)

# Everything but main(), so that the tests can link it.
noinst_LTLIBRARIES += libfytools.la
libfytools_la_SOURCES = \
	tools/annotate.c \
	tools/calibrate.c \
	tools/check.c \
	tools/check_kernels.c tools/check_kernels.h \
	tools/child.c tools/child.h \
	tools/config.c \
	tools/deploy.c \
	tools/doctor.c tools/doctor.h \
	tools/doctor_host.c \
	tools/doctor_program.c \
	tools/explain.c \
	tools/json.c tools/json.h \
	tools/kernel.c tools/kernel.h \
	tools/launch.c tools/launch.h \
	tools/model_cache.c \
	tools/options.c tools/options.h \
	tools/mount/command.c \
	tools/mount/mount.h \
	tools/mount/mounted.c \
	tools/mount/start.c \
	tools/mount/umount.c \
	tools/mount/words.c \
	tools/pipeline.c tools/pipeline.h \
	tools/places.c \
	tools/preload.c \
	tools/proxy.c \
	tools/report.c tools/report.h \
	tools/report_print.c \
	tools/report_stages.c \
	tools/run.c \
	tools/say.c \
	tools/shell.c \
	tools/mount/status.c tools/mount/status.h \
	tools/tool.h \
	tools/verify.c
libfytools_la_CPPFLAGS = $(AM_CPPFLAGS) \
	-DFY_PKGLIBDIR='"$(pkglibdir)"' -DFY_PKGDATADIR='"$(pkgdatadir)"' \
	-DFY_PKGLIBEXECDIR='"$(pkglibexecdir)"'
libfytools_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS)
# Programs name the libraries that libfytools.la needs: a library that held their objects
# would be made again after each edit.
FYTOOLS = libfytools.la libfyproxy.la libfyshimgen.la libfyannotations.la \
	libfyverify.la libfypager.la libfymodel.la libfycommon.la $(JANSSON_LIBS) -ldl

dist_bashcompletion_DATA = tools/completion/ferry
dist_zshcompletion_DATA = tools/completion/_ferry

dist_man_MANS += \
	docs/ferry.1 \
	docs/ferry-calibrate.1 \
	docs/ferry-check.1 \
	docs/ferry-deploy.1 \
	docs/ferry-doctor.1 \
	docs/ferry-explain.1 \
	docs/ferry-mount.1 \
	docs/ferry-proxy.1 \
	docs/ferry-report.1 \
	docs/ferry-run.1 \
	docs/ferry-shell.1 \
	docs/ferry-umount.1 \
	docs/ferry-verify.1 \
	docs/mount.ferry.8
EXTRA_DIST += docs/ARCHITECTURE.md docs/TESTING.md

# What mount(8) calls for a line of fstab of type ferry.
install-exec-hook: install-mount-ferry
install-mount-ferry:
	$(MKDIR_P) '$(DESTDIR)$(sbindir)'
	ln -sfr '$(DESTDIR)$(bindir)/ferry' '$(DESTDIR)$(sbindir)/mount.ferry'
uninstall-hook: uninstall-mount-ferry
uninstall-mount-ferry:
	rm -f '$(DESTDIR)$(sbindir)/mount.ferry'
.PHONY: install-mount-ferry uninstall-mount-ferry

# What was installed finds its parts and runs a program without a word.
installcheck-local: installcheck-ferry
installcheck-ferry:
	'$(DESTDIR)$(bindir)/ferry' check '$(DESTDIR)$(pkgdatadir)/annotations/lib'
	test -z "`'$(DESTDIR)$(bindir)/ferry' run --device host -- true 2>&1`"
.PHONY: installcheck-ferry
EXTRA_DIST += tools/README.md
