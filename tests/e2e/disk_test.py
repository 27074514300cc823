#!/usr/bin/env python3
"""Disks that refuse: full, read-only, or held by another process. Serving goes on, and says so."""

import os
import subprocess
import unittest

from case import Case, text_of, wait_until


class DiskTest(Case):
    def mount(self, name, options):
        """A small file system of its own, or a skip where mounting is not allowed."""
        folder = self.folder / name
        folder.mkdir()
        if os.geteuid() != 0:
            self.skipTest("mounting a tmpfs needs root")
        made = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
                              capture_output=True, text=True)
        if made.returncode != 0:
            self.skipTest(f"cannot mount a tmpfs: {made.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=False)
        return folder

    def assert_serves(self, running, name):
        """A cold answer and a memory hit, as without a disk."""
        prompt = text_of(name, 300)
        cold = self.assert_ok(running.complete(prompt))
        memory = self.assert_ok(running.complete(prompt))
        self.assertGreater(memory.tier("device"), 0)
        self.assertEqual(memory.answer, cold.answer)

    @staticmethod
    def fill(path):
        with open(path, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"\0" * (1 << 16))
            except OSError:
                pass

    def respond(self, running, text):
        return running.send("/v1/responses", {"model": "local", "input": text, "store": True,
                                              "max_output_tokens": 8})

    def test_a_disk_that_is_full_at_the_first_start_is_taken_up_when_it_has_room(self):
        data_dir = self.mount("full", "size=24m")
        filler = data_dir / "filler"
        self.fill(filler)
        running = self.serve(data_dir=data_dir / "data")
        self.assert_serves(running, "full from the start")
        self.assertTrue(running.stats()["store"]["error"])
        # Never a promise that is not kept.
        reply = self.respond(running, "not kept")
        self.assertFalse(reply.status == 200 and reply.json["store"], reply.body[:500])
        filler.unlink()
        running.wait_for("the disk to be taken up",
                         lambda stats: not stats["store"]["error"], timeout=30)

        def keep():
            reply = self.respond(running, "kept")
            return reply if reply.status == 200 and reply.json["store"] else None

        reply = wait_until(keep, "an answer is stored")
        # What sealed it is on the disk, too.
        running.kill()
        running.restart()
        found = running.get("/v1/responses/" + reply.json["id"])
        self.assertEqual(found.status, 200, found.body[:500])
        self.assertEqual(found.json["output"], reply.json["output"])

    def test_a_full_disk_stops_the_disk_tier_and_not_the_server(self):
        data_dir = self.mount("small", "size=24m")
        running = self.serve(data_dir=data_dir / "data")
        filler = data_dir / "filler"
        # Opened with room to spare, then filled by somebody else.
        self.fill(filler)
        for index in range(6):
            self.assert_serves(running, f"full {index}")
        running.wait_for("the store to say that it cannot write", lambda stats:
                         "full" in stats["store"]["error"], timeout=10)
        # Room again and a restart: the directory is sound and writing works.
        running.kill()
        filler.unlink()
        running.restart()
        self.assert_serves(running, "room again")
        running.wait_on_disk()

    def test_a_read_only_directory_means_no_disk_tier_and_a_clear_message(self):
        if os.geteuid() == 0:  # root may write to a directory of any mode
            folder = self.mount("read-only", "size=1m,ro")
        else:
            folder = self.folder / "read-only"
            folder.mkdir(mode=0o500)
        running = self.serve(data_dir=folder / "data")
        self.assert_serves(running, "read-only")
        self.assertTrue(running.stats()["store"]["error"])
        self.assertIn(str(folder), running.log())

    def test_a_directory_that_another_server_holds_is_left_alone(self):
        holder = self.serve()
        self.assert_serves(holder, "held")
        second = self.serve()  # the same data directory
        self.assert_serves(second, "held")
        self.assertIn(str(self.folder / "data"), second.log())
        # The holder is not disturbed: its KV is written and comes back.
        holder.wait_on_disk()
        second.kill()
        holder.kill()
        holder.restart()
        again = self.assert_ok(holder.complete(text_of("held", 300)))
        self.assertGreater(again.tier("disk"), 0)

    def test_a_damaged_cache_is_set_aside_and_serving_starts_anew(self):
        running = self.serve()
        prompt = text_of("damage", 300)
        cold = self.assert_ok(running.complete(prompt))
        running.wait_on_disk()
        running.kill()
        damaged = 0
        for path in (self.folder / "data" / "kv").rglob("*"):
            if path.is_file() and path.stat().st_size > 1000:
                size = path.stat().st_size
                with open(path, "r+b") as file:
                    for offset in range(0, size, 512):
                        file.seek(offset)
                        file.write(b"\xa5\x5a\xa5\x5a")
                damaged += 1
        self.assertGreater(damaged, 0)
        running.restart()
        again = self.assert_ok(running.complete(prompt))
        self.assertEqual(again.answer, cold.answer)
        self.assertEqual(again.tier("disk"), 0)

    def test_the_data_directory_is_private(self):
        self.serve()
        self.assertEqual((self.folder / "data").stat().st_mode & 0o777, 0o700)


if __name__ == "__main__":
    unittest.main()
