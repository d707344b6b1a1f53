"""Two "hosts" on one machine: namespaces with a host name and a network stack each, joined by one virtual cable.

    with Network() as net:
        train(path("run"), settings, ranks=net.ranks(2))     # mpirun on the first host, its second rank on the second
        net.shape("100mbit"); net.moved(); net.cut()

A host exists as long as a process runs in it: the first one waits for this process to end, so no end of a test, however
violent, leaves a network behind. The hosts see the same files until one mounts something over them. Needs root
(CAP_SYS_ADMIN, CAP_NET_ADMIN), iproute2 and util-linux: need_namespaces() skips where they are missing.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile

import harness

_PREFIX = "10.213.7."  # nobody else's: the namespaces see no other network
_DEVICE = "cable"


def need_namespaces():
    for tool in ("ip", "tc", "nsenter", "unshare"):
        if not shutil.which(tool):
            raise harness.Skip("there is no %s (packages iproute2 and util-linux)" % tool)
    if os.geteuid() != 0:
        raise harness.Skip("network namespaces need root")
    try:
        with Network() as net:
            net.shape("1gbit")
    except (OSError, subprocess.CalledProcessError) as error:
        raise harness.Skip("no network namespaces here: %s" % (getattr(error, "stderr", "") or error).strip())


def _run(*words):
    return subprocess.run(list(map(str, words)), check=True, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE).stdout


class Host:
    """A name, an address, and the command prefix that runs a command there."""

    def __init__(self, name, address, hosts_file):
        self.name, self.address = name, address
        # Says that it is ready, then waits for the end of its input, which is that of this process at the latest.
        # TCP gives a silent peer up after about 6 s instead of 15 minutes: mpirun's own daemons wait for that.
        # UCX looks for network devices in /sys, where those of the outer network would be.
        script = ('hostname "$0" && mount --bind "$1" /etc/hosts && mount -t sysfs none /sys && ip link set lo up && '
                  'echo 4 >/proc/sys/net/ipv4/tcp_retries2 && echo ready && read -r _')
        self._holder = subprocess.Popen(["unshare", "--net", "--uts", "--ipc", "--mount", "sh", "-c", script, name,
                                         hosts_file], text=True, start_new_session=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = self._holder.pid
        self.inside = ["nsenter", "--target", str(self.pid), "--net", "--uts", "--ipc", "--mount",
                       "--wdns=" + harness.scratch()]  # which nothing is mounted over
        if self._holder.stdout.readline() != "ready\n":
            raise OSError(self._holder.communicate()[1] or "unshare failed")
        self._network = os.readlink("/proc/%d/ns/net" % self.pid)

    def run(self, *words):
        return _run(*self.inside, *words)

    def processes(self):
        """{pid: command line} of this host, seen from outside, without the process that keeps it alive."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if int(pid) != self.pid and os.readlink("/proc/%s/ns/net" % pid) == self._network:
                    with open("/proc/%s/cmdline" % pid) as file:
                        found[int(pid)] = file.read().replace("\0", " ").strip()
            except OSError:
                pass  # it has just ended
        return found

    def close(self):
        """Kills the remaining processes, as a power failure would."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._holder.kill()
        self._holder.communicate()


class Network:
    def __init__(self):
        self.hosts = []
        self._folder = tempfile.mkdtemp(dir=harness.scratch())

    def __enter__(self):
        try:
            # Names differ from run to run so that no two jobs at a time share a session folder of mpirun.
            names = ["ct%d%s" % (os.getpid(), letter) for letter in "ab"]
            pairs = [(_PREFIX + str(1 + i), name) for i, name in enumerate(names)]
            hosts_file = self._write("hosts", "127.0.0.1 localhost\n" + "".join("%s %s\n" % pair for pair in pairs))
            for address, name in pairs:
                self.hosts.append(Host(name, address, hosts_file))
            first, second = self.hosts
            first.run("ip", "link", "add", _DEVICE, "type", "veth", "peer", "name", _DEVICE, "netns", second.pid)
            for host in self.hosts:
                host.run("ip", "address", "add", host.address + "/24", "dev", _DEVICE)
                host.run("ip", "link", "set", _DEVICE, "up")
            for host in self.hosts:  # a moment later it is
                host.run("sh", "-c", "for i in $(seq 100); do grep -q up /sys/class/net/%s/operstate && exit; "
                                     "sleep 0.05; done; exit 1" % _DEVICE)
            self._hostfile = self._write("hostfile", "".join("%s slots=64\n" % host.name for host in self.hosts))
            # In place of ssh. What it says goes into a file: a pipe would stay open as long as the other host lives.
            self._agent = self._write("rsh", "#!/bin/sh\nhost=$1\nshift\ncase $host in\n" + "".join(
                "%s) exec %s sh -c \"$*\" >>%s/rsh.log 2>&1 ;;\n" % (host.name, " ".join(host.inside), self._folder)
                for host in self.hosts) + "esac\necho \"no host $host\" >&2\nexit 255\n")
            return self
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        for host in self.hosts:
            host.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _write(self, name, text):
        at = os.path.join(self._folder, name)
        with open(at, "w") as file:
            file.write(text)
        os.chmod(at, 0o755)
        return at

    def ranks(self, number, *options):
        """The argument `ranks` of harness.train: the same number on each host; options go to mpirun."""
        return _Ranks(self, number, options)

    def _mpi_settings(self):
        return {"plm_rsh_agent": self._agent, "oob_tcp_if_include": _DEVICE, "btl_tcp_if_include": _DEVICE}

    def mpi_environment(self):
        """The environment of an mpirun on the first host."""
        return {"OMPI_MCA_" + key: value for key, value in self._mpi_settings().items()}

    def mpirun(self, number, *options):
        """The command of an mpirun on the first host, with rank r on host r mod 2."""
        settings = self._mpi_settings()
        return [*self.hosts[0].inside, "mpirun", "--hostfile", self._hostfile, "--map-by", "node", "--bind-to", "none",
                *[word for key, value in settings.items() for word in ("--mca", key, value)],
                *options, "-np", str(number)]

    def shape(self, rate, burst="128k", latency="400ms"):
        """Limits the bits per second in each direction, in tc's notation."""
        for host in self.hosts:
            host.run("tc", "qdisc", "replace", "dev", _DEVICE, "root", "tbf", "rate", rate, "burst", burst, "latency",
                     latency)

    def moved(self):
        """Bytes that each host has sent, without headers of Ethernet, IP and TCP: nearly all are TCP's."""
        found = []
        for host in self.hosts:
            sent = json.loads(host.run("ip", "-s", "-j", "link", "show", _DEVICE))[0]["stats64"]["tx"]
            found.append(sent["bytes"] - 66 * sent["packets"])
        return found

    def cut(self):
        """Cuts the link: packets in flight are lost, without an error."""
        self.hosts[1].run("ip", "link", "set", _DEVICE, "down")


class _Ranks:
    mpi = True

    def __init__(self, network, number, options):
        self._network, self.number, self._options = network, number, options

    def __repr__(self):
        return "mpirun -np %d on two hosts" % self.number

    def words(self, *words):
        return [*self._network.mpirun(self.number, *self._options), harness.PROGRAM, *map(str, words)]
