#!/usr/bin/env python3
"""deploy/ is true: its files parse and agree with each other and with the tree, the programs that
read them take them, and what compose starts works on loopback from the same files."""

import http.client
import json
import os
import re
import secrets
import shutil
import subprocess
import unittest
import urllib.parse
import urllib.request

from case import ROOT, Case, text_of, wait_until
from redis_server import RedisServer, free_port
from server import Server, binary_path

try:
    import yaml
except ImportError:
    yaml = None

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose"
KUBERNETES = DEPLOY / "kubernetes"
SECONDS_BEHIND_DRAIN = 15  # in which answers are ended and KV is written
SECRET_OF_VARIABLE = {"KVGATE_KEY": "client_key", "KVGATE_METRICS_KEY": "metrics_key",
                      "KVGATE_STORE_KEY": "store_key", "KVGATE_STORE_PASSWORD": "store_password"}


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text)[1])


def value_in_toml(text, key):
    """Of a key that stands once in a configuration."""
    (found,) = re.findall(rf"(?m)^{key} = (.+)$", text)
    return json.loads(found)


class DeployCase(Case):
    def setUp(self):
        super().setUp()
        if yaml is None:
            self.skipTest("the module yaml is not installed (Debian: python3-yaml)")
        self.compose = yaml.safe_load((COMPOSE / "compose.yaml").read_text())
        self.services = self.compose["services"]
        self.manifests = [manifest for path in sorted(KUBERNETES.glob("*.yaml"))
                          for manifest in yaml.safe_load_all(path.read_text())]

    def manifest(self, kind, name):
        (found,) = [m for m in self.manifests
                    if m["kind"] == kind and m["metadata"]["name"] == name]
        return found

    def container(self, name):
        (found,) = self.manifest("StatefulSet", name)["spec"]["template"]["spec"]["containers"]
        return found

    def configurations(self):
        """The kvgate.toml of each folder."""
        return {"compose": (COMPOSE / "kvgate.toml").read_text(),
                "kubernetes": self.manifest("ConfigMap", "kvgate")["data"]["kvgate.toml"]}

    def need(self, program, package):
        found = shutil.which(program)
        if found is None:
            self.skipTest(f"{program} is not installed (Debian: {package})")
        return found

    def in_loopback(self, name, replaced):
        """A file of deploy/compose with other addresses, each of which stands in it."""
        text = (COMPOSE / name).read_text()
        for old, new in replaced.items():
            self.assertIn(old, text, name)
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text)
        return path


class FilesTest(DeployCase):
    def test_every_yaml_file_parses(self):
        paths = [path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml")]
        self.assertGreater(len(paths), 5)
        for path in paths:
            for document in yaml.safe_load_all(path.read_text()):
                self.assertIsInstance(document, dict, path)

    def test_every_configuration_passes_with_the_environment_that_is_given(self):
        for name, text in self.configurations().items():
            path = self.folder / f"{name}.toml"
            path.write_text(text)
            checked = subprocess.run([binary_path(), "config", "check", path], timeout=60,
                                     capture_output=True, text=True)
            self.assertEqual(checked.returncode, 0, name + checked.stderr + checked.stdout)
            self.assertIn("tier shared: redis://", checked.stdout)
            named = set(re.findall(r'_env = "(\w+)"', text))
            self.assertEqual(named, set(SECRET_OF_VARIABLE), name)
        given = {entry["name"]: entry["valueFrom"]["secretKeyRef"]["key"].replace("-", "_")
                 for entry in self.container("kvgate")["env"]}
        self.assertEqual(given, SECRET_OF_VARIABLE)
        script = self.services["kvgate-1"]["entrypoint"][-1]
        self.assertEqual(dict(re.findall(r'(\w+)="\$\$\(cat /run/secrets/(\w+)\)"', script)),
                         SECRET_OF_VARIABLE)

    def test_what_is_mounted_is_there(self):
        named = set(self.compose["volumes"])
        count = 0
        for name, service in self.services.items():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                if source.startswith("."):
                    count += 1
                    self.assertTrue((COMPOSE / source).is_file(), f"{name}: {source}")
                    self.assertTrue(volume.endswith(":ro"), f"{name}: {volume}")
                else:
                    self.assertIn(source, named, name)
            self.assertLessEqual(set(service.get("secrets", [])), set(self.compose["secrets"]))
        self.assertGreater(count, 7)
        build = self.services["kvgate-1"]["build"]
        self.assertTrue((COMPOSE / build["context"] / build["dockerfile"]).is_file())
        # The paths in the containers are those that the programs look at.
        mounted = {volume.split(":")[1]: volume.split(":")[0]
                   for service in self.services.values() for volume in service["volumes"]}
        board = yaml.safe_load((COMPOSE / "grafana/dashboards.yaml").read_text())
        folder = board["providers"][0]["options"]["path"]
        self.assertEqual((COMPOSE / mounted[folder + "/kvgate.json"]).resolve(),
                         ROOT / "gateway/dashboard/grafana/kvgate.json")
        self.assertEqual((COMPOSE / mounted["/etc/prometheus/alerts.yml"]).resolve(),
                         ROOT / "gateway/dashboard/grafana/alerts.yml")
        for manifest in self.manifests:
            if manifest["kind"] == "StatefulSet":
                self.mounts_of_a_pod_are_there(manifest["spec"])

    def mounts_of_a_pod_are_there(self, spec):
        pod = spec["template"]["spec"]
        names = {volume["name"] for volume in pod["volumes"]}
        names |= {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
        for mount in pod["containers"][0]["volumeMounts"]:
            self.assertIn(mount["name"], names)
        for volume in pod["volumes"]:
            if "configMap" in volume:
                self.manifest("ConfigMap", volume["configMap"]["name"])

    def test_ports_and_names_agree(self):
        for name, text in self.configurations().items():
            port = int(value_in_toml(text, "listen").rsplit(":", 1)[1])
            self.assertEqual(port, 8080, name)
        hosts = value_in_toml(self.configurations()["compose"], "allowed_hosts")
        scraped = yaml.safe_load((COMPOSE / "prometheus.yml").read_text())["scrape_configs"][0]
        targets = scraped["static_configs"][0]["targets"]
        self.assertEqual(targets, [f"{host}:8080" for host in hosts])
        balanced = re.findall(r"(?m)^  server (\S+) (\S+)$", (COMPOSE / "haproxy.cfg").read_text())
        self.assertEqual(balanced, [(host, f"{host}:8080") for host in hosts])
        self.assertLessEqual(set(hosts), set(self.services))
        for text in self.configurations().values():
            store, port = re.search(r'"redis://([\w-]+):(\d+)"', text).groups()
            self.assertEqual(port, "6379")
            self.assertTrue(store in self.services or self.manifest("Service", store))
        (http_port,) = self.container("kvgate")["ports"]
        self.assertEqual(http_port["containerPort"], 8080)
        for manifest in self.manifests:
            if manifest["kind"] == "Service":
                (port,) = manifest["spec"]["ports"]
                (target,) = self.container(manifest["spec"]["selector"]["app"])["ports"]
                self.assertEqual((port["targetPort"], port["port"]),
                                 (target["name"], target["containerPort"]))
            if manifest["kind"] == "StatefulSet":
                self.manifest("Service", manifest["spec"]["serviceName"])

    def test_only_loopback_is_published(self):
        published = {name: service["ports"] for name, service in self.services.items()
                     if "ports" in service}
        self.assertEqual(set(published), {"balancer", "grafana"})
        for ports in published.values():
            for port in ports:
                self.assertTrue(port.startswith("127.0.0.1:"), port)
        for manifest in self.manifests:
            self.assertNotEqual(manifest["kind"], "Secret")
            if manifest["kind"] == "Service":
                self.assertNotIn(manifest["spec"].get("type"), ("NodePort", "LoadBalancer"))

    def test_a_stop_has_time_to_drain(self):
        drain = {name: value_in_toml(text, "unready_seconds") + value_in_toml(text, "drain_seconds")
                 for name, text in self.configurations().items()}
        for name in ("kvgate-1", "kvgate-2", "balancer"):
            self.assertGreaterEqual(seconds(self.services[name]["stop_grace_period"]),
                                    drain["compose"] + SECONDS_BEHIND_DRAIN, name)
        pod = self.manifest("StatefulSet", "kvgate")["spec"]["template"]["spec"]
        self.assertGreaterEqual(pod["terminationGracePeriodSeconds"],
                                drain["kubernetes"] + SECONDS_BEHIND_DRAIN)
        # Who asks for readiness notices twice over before the port closes.
        unready = {name: value_in_toml(text, "unready_seconds")
                   for name, text in self.configurations().items()}
        probe = self.container("kvgate")["readinessProbe"]
        self.assertGreater(unready["kubernetes"],
                           2 * probe["periodSeconds"] * probe["failureThreshold"])
        check = re.search(r"check inter (\d+)ms fall (\d+)", (COMPOSE / "haproxy.cfg").read_text())
        self.assertGreater(unready["compose"] * 1000, 2 * int(check[1]) * int(check[2]))

    def test_probes_are_answered(self):
        running = self.serve()
        container = self.container("kvgate")
        for name in ("readinessProbe", "livenessProbe"):
            probe = container[name]["httpGet"]
            self.assertEqual(probe["port"], container["ports"][0]["name"])
            headers = {header["name"]: header["value"] for header in probe["httpHeaders"]}
            self.assertEqual(running.get(probe["path"], headers).status, 200, name)
            # Without that header it would be the pod's address, which is refused.
            self.assertEqual(running.get(probe["path"], {"Host": "10.1.2.3:8080"}).status, 421)
        check = re.search(r"send meth GET uri (\S+) ver HTTP/1.1 hdr Host (\S+)",
                          (COMPOSE / "haproxy.cfg").read_text())
        self.assertEqual(running.get(check[1], {"Host": check[2]}).status, 200)


class ProgramsTest(DeployCase):
    """What the programs themselves say of their files."""

    def said(self, command, **more):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, **more)
        return done.returncode, done.stdout + done.stderr

    def test_promtool_takes_the_configuration(self):
        promtool = self.need("promtool", "prometheus")
        (self.folder / "metrics_key").write_text("key")
        shutil.copy(ROOT / "gateway/dashboard/grafana/alerts.yml", self.folder)
        path = self.in_loopback("prometheus.yml",
                                {"/run/secrets/metrics_key": str(self.folder / "metrics_key")})
        status, said = self.said([promtool, "check", "config", str(path)])
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"[1-9]\d* rules? found|1 rule files found")

    def test_haproxy_takes_the_configuration(self):
        haproxy = self.need("haproxy", "haproxy")
        path = self.in_loopback("haproxy.cfg", {"kvgate-1:8080": "127.0.0.1:1",
                                                "kvgate-2:8080": "127.0.0.1:2"})
        status, said = self.said([haproxy, "-c", "-f", str(path)])
        self.assertEqual((status, "WARNING" in said), (0, False), said)

    def test_docker_compose_takes_the_file(self):
        docker = self.need("docker", "docker.io")
        if self.said([docker, "compose", "version"])[0] != 0:
            self.skipTest("docker compose is not installed")
        copy = self.folder / "deploy/compose"
        shutil.copytree(COMPOSE, copy)
        (copy / "secrets").mkdir(exist_ok=True)
        for name in self.compose["secrets"]:
            (copy / "secrets" / name).write_text("secret")
        status, said = self.said([docker, "compose", "config", "--quiet"], cwd=copy)
        self.assertEqual(status, 0, said)

    def test_kubectl_takes_the_pods(self):
        kubectl = self.need("kubectl", "kubernetes-client")
        pods = [manifest for manifest in self.manifests if manifest["kind"] == "StatefulSet"]
        # It changes nothing and asks no server, and reads each field as its type.
        status, said = self.said([kubectl, "set", "env", "--local", "-o", "name", "-f", "-", "A=b"],
                                 input=yaml.safe_dump_all(pods))
        self.assertEqual(status, 0, said)
        self.assertIn("statefulset.apps/kvgate-store", said)


class TopologyTest(DeployCase):
    """What compose starts, on loopback: the same files with other addresses and folders."""

    def setUp(self):
        super().setUp()
        self.secrets = {name: secrets.token_hex(32) for name in self.compose["secrets"]}
        for variable, name in SECRET_OF_VARIABLE.items():
            os.environ[variable] = self.secrets[name]
            self.addCleanup(os.environ.pop, variable)
        self.key = {"Authorization": "Bearer " + self.secrets["client_key"]}
        self.store()
        self.gateways = [self.gateway(name) for name in ("kvgate-1", "kvgate-2")]

    def launch(self, name, command):
        """A program that ends with the test, and writes to NAME.log."""
        with open(self.folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        self.addCleanup(process.wait, 60)
        self.addCleanup(process.kill)
        return process

    def log(self, name):
        return (self.folder / f"{name}.log").read_text()[-2000:]

    def store(self):
        self.redis = RedisServer(self.folder / "valkey", password=self.secrets["store_password"])
        self.redis.folder.mkdir()
        path = self.in_loopback("valkey.conf", {
            "bind * -::*": "bind 127.0.0.1", "port 6379": f"port {self.redis.port}",
            "dir /data": f"dir {self.redis.folder}"})
        with path.open("a") as file:  # as the entrypoint does
            file.write(f"requirepass {self.redis.password}\n")
        self.launch("valkey", [self.redis.program, str(path)])
        wait_until(lambda: "PONG" in self.redis.cli("PING"), lambda: self.log("valkey"))

    def gateway(self, name):
        data = self.folder / name
        config = self.in_loopback("kvgate.toml", {
            "0.0.0.0:8080": "127.0.0.1:0", "/var/lib/kvgate": str(data),
            "valkey:6379": f"127.0.0.1:{self.redis.port}"})
        made = Server(None, data, ["--config", str(config),
                                   "--set", "engine.kv_memory=192MiB"])
        self.addCleanup(made.__exit__)
        made.start()
        wait_until(lambda: made.get("/ready").status == 200, made.log)
        return made

    def test_what_one_gateway_answered_is_a_shared_hit_at_the_other(self):
        self.assertEqual(self.redis.cli("CONFIG", "GET", "maxmemory-policy").split()[-1],
                         "volatile-lru")
        first, second = self.gateways
        self.assertEqual(first.complete("hello").status, 401)
        for attempt in range(4):  # where the machine stands still, a prompt is computed instead
            prompt = text_of(f"shared {attempt}", 1000)
            cold = self.assert_ok(first.complete(prompt, max_tokens=8, headers=self.key))
            self.assertEqual(cold.cached_tokens, 0)
            blocks = cold.usage["prompt_tokens"] // 32
            wait_until(lambda: len(self.redis.keys("kvg:b:*")) >= blocks * (attempt + 1),
                       lambda: f"{blocks} blocks; {self.redis.keys()}")
            hit = self.assert_ok(second.complete(prompt, max_tokens=8, headers=self.key))
            self.assertEqual(hit.answer, cold.answer)
            if hit.tier("shared") >= cold.usage["prompt_tokens"] - 64:
                return
        self.fail(f"nothing was restored: {second.log()[-2000:]}")

    def test_prometheus_sees_both_by_its_own_key(self):
        prometheus = self.need("prometheus", "prometheus")
        (self.folder / "metrics_key").write_text(self.secrets["metrics_key"] + "\n")
        shutil.copy(ROOT / "gateway/dashboard/grafana/alerts.yml", self.folder)
        config = self.in_loopback("prometheus.yml", {
            "/run/secrets/metrics_key": str(self.folder / "metrics_key"),
            "interval: 15s": "interval: 500ms",
            "kvgate-1:8080": self.gateways[0].address,
            "kvgate-2:8080": self.gateways[1].address})
        port = free_port()
        self.launch("prometheus", [
            prometheus, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
            f"--storage.tsdb.path={self.folder / 'tsdb'}"])

        def up():
            url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode(
                {"query": 'up{job="kvgate"} == 1 and kvgate_ready == 1'})
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    rows = json.load(answer)["data"]["result"]
            except (OSError, http.client.HTTPException):
                return None
            return {row["metric"]["instance"] for row in rows}

        both = {gateway.address for gateway in self.gateways}
        wait_until(lambda: up() == both, lambda: f"{up()}: {self.log('prometheus')}")
        # Without that key there are none.
        self.assertEqual(self.gateways[0].get("/metrics").status, 401)
        self.assertEqual(self.gateways[0].get("/metrics", self.key).status, 403)

    def test_behind_haproxy_a_gateway_that_stops_is_not_missed(self):
        haproxy = self.need("haproxy", "haproxy")
        port = free_port()
        config = self.in_loopback("haproxy.cfg", {
            "bind :8080": f"bind 127.0.0.1:{port}",
            "kvgate-1:8080": self.gateways[0].address,
            "kvgate-2:8080": self.gateways[1].address})
        self.launch("haproxy", [haproxy, "-f", str(config)])
        through = Server(None, self.folder / "none")  # to ask; it is never started
        through.address = f"127.0.0.1:{port}"

        def answered():
            try:
                return through.get("/v1/models", self.key).status == 200
            except (OSError, http.client.HTTPException):
                return False

        wait_until(answered, lambda: self.log("haproxy"))
        self.assertTrue(all(answered() for _ in range(20)))
        self.assertEqual(self.gateways[0].terminate(60), 0)
        self.assertTrue(all(answered() for _ in range(20)), self.log("haproxy"))


if __name__ == "__main__":
    unittest.main()
