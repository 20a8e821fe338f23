# The finished image, broken on purpose: a stage for each thing that the checks must find. Each adds a small layer.
ARG IMAGE
FROM ${IMAGE} AS healthy

# A program of its own brought a second NCCL along.
FROM healthy AS second-nccl
RUN echo 'const char told[] = "NCCL version 2.18.1+cuda12.1"; int ncclGetVersion(int *v) { *v = 21801; return 0; }' | \
    gcc -shared -fPIC -x c - -Wl,-soname,libnccl.so.2 -o /usr/local/lib/libnccl.so.2.18.1 && ldconfig

# The stub that programs are linked against, where the loader finds it before the driver's.
FROM healthy AS stub-libcuda
RUN mkdir -p /usr/local/cuda/lib64/stubs && echo 'int cuInit(unsigned flags) { return 34; }' | \
    gcc -shared -fPIC -x c - -Wl,-soname,libcuda.so.1 -o /usr/local/cuda/lib64/stubs/libcuda.so && \
    ln -s libcuda.so /usr/local/cuda/lib64/stubs/libcuda.so.1
ENV LD_LIBRARY_PATH=/usr/local/cuda/lib64/stubs

# What a resolver takes without a lock.
FROM healthy AS wrong-nvjitlink
RUN cd /opt/venv/lib/python3*/site-packages && \
    mv nvidia_nvjitlink_cu12-*.dist-info nvidia_nvjitlink_cu12-12.9.86.dist-info && \
    sed -i 's/^Version: .*/Version: 12.9.86/' nvidia_nvjitlink_cu12-12.9.86.dist-info/METADATA

FROM healthy AS no-ibverbs-providers
RUN rm -rf /etc/libibverbs.d /usr/lib/x86_64-linux-gnu/libibverbs

FROM healthy AS key-in-a-layer
RUN mkdir -p /root/.ssh && ssh-keygen -q -t ed25519 -N '' -f /root/.ssh/id_ed25519

FROM healthy AS stray-cache
RUN mkdir -p /root/.cache/pip/http && head -c 2M /dev/urandom >/root/.cache/pip/http/wheel

FROM healthy AS world-writable-rig
RUN chmod -R o+w /opt/rig

# An empty element is the working folder: a library there is loaded by every program.
FROM healthy AS polluted-ld-library-path
ENV LD_LIBRARY_PATH=:/usr/local/lib

# numpy 2 has no BUFSIZE, which DeepSpeed 0.12 asks for as it is imported.
FROM healthy AS numpy-2
RUN cd /opt/venv/lib/python3*/site-packages && \
    old=$(ls -d numpy-*.dist-info) && mv "$old" numpy-2.2.6.dist-info && \
    sed -i 's/^Version: .*/Version: 2.2.6/' numpy-2.2.6.dist-info/METADATA && \
    printf '%s\n' 'version = __version__ = full_version = "2.2.6"' 'git_revision = "0"' 'release = True' \
    'short_version = version' >numpy/version.py && printf '%s\n' 'del BUFSIZE' >>numpy/__init__.py

# pkg_resources of setuptools 70 and later lends `packaging` to nobody; torch 2.1 compiles ops with it.
FROM healthy AS setuptools-80
RUN cd /opt/venv/lib/python3*/site-packages && \
    old=$(ls -d setuptools-*.dist-info) && mv "$old" setuptools-80.9.0.dist-info && \
    sed -i 's/^Version: .*/Version: 80.9.0/' setuptools-80.9.0.dist-info/METADATA && \
    printf '%s\n' 'del packaging' >>pkg_resources/__init__.py

FROM healthy AS no-tini
RUN rm "$(command -v tini)"

FROM healthy AS user-without-home
RUN useradd --no-create-home --home-dir /nowhere --uid 4242 trainer
USER trainer
