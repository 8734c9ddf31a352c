"""tools/check_sass: the plug-in that was built keeps the table; the tool finds what breaks a rule, in cubins
made up here and, where nvcc is found, in real ones."""
import importlib.machinery
import importlib.util
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
TOOL = ROOT / "tools" / "check_sass"
PLUGIN = pathlib.Path(os.environ.get("OSPREY_BUILD", ROOT / "build")) / "osprey-cuda.so"
NVCC = shutil.which("nvcc") or shutil.which("/usr/local/cuda/bin/nvcc")

loader = importlib.machinery.SourceFileLoader("check_sass", str(TOOL))
sass = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_sass", loader))
loader.exec_module(sass)

HMMA, QMMA_SF, LDL, STL, NOP = 0x23C, 0x47A, 0x983, 0x387, 0x918
ACQBULK, PREEXIT, STG, REDG = 0x82E, 0x82D, 0x986, 0x98E
NAME = "_Z13matmul_kernelILi2ELi1EEv6matmul"


def elf_of(named, machine):
    """An ELF64 file with these sections, [(name, contents)]; .shstrtab is added."""
    named = [("", b"")] + named + [(".shstrtab", b"")]
    strings, starts = b"", []
    for name, _ in named:
        starts.append(len(strings))
        strings += name.encode() + b"\0"
    named[-1] = (".shstrtab", strings)
    body, headers = b"", b""
    for (name, data), start in zip(named, starts):
        headers += struct.pack("<IIQQQQIIQQ", start, 1, 0, 0, 64 + len(body), len(data), 0, 0, 1, 0)
        body += data
    header = b"\x7fELF\x02\x01\x01\x41\x08" + bytes(7)
    header += struct.pack("<HHIQQQIHHHHHH", 2, machine, 1, 0, 0, 64 + len(body), 90 << 8, 64, 0, 0,
                          64, len(named), len(named) - 1)
    return header + body + headers


def cubin(opcodes, name=NAME, frame_bytes=0):
    """One kernel with these instructions."""
    code = b"".join(struct.pack("<QQ", 0xABCD << 12 | opcode, 1 << 60) for opcode in opcodes)
    strtab = b"\0" + name.encode() + b"\0"
    symtab = bytes(24) + struct.pack("<IBBHQQ", 1, 0x12, 0, 1, 0, len(code))
    info = struct.pack("<BBHII", 4, 0x11, 8, 1, frame_bytes) + struct.pack("<BBH", 3, 0x4A, 0)
    info += struct.pack("<BBHII", 4, 0x2F, 8, 1, 77)
    return elf_of([(".strtab", strtab), (".symtab", symtab), (".nv.info", info),
                   (".text." + name, code)], 190)


def fatbin(elf, architecture, compressed=0):
    elf += bytes(-len(elf) % 8)
    entry = struct.pack("<HHIQIIII", 2, 257, 64, len(elf), compressed, 0, 0, architecture)
    entry += bytes(64 - len(entry)) + elf
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry)) + entry


def plugin(*members):
    return elf_of([(".nv_fatbin", b"".join(members))], 62)


RULES = [("*", "matmul_kernel<*>", ["HMMA"], []), ("sm_121", "matmul_kernel<2,*>", ["QMMA.SF"], ["HMMA"])]


def check(file, rules=RULES[:1]):
    return list(sass.check(sass.kernels_of(file), rules))


def test_a_kernel_within_the_rules():
    file = plugin(fatbin(cubin([NOP, HMMA, HMMA]), 90))
    [kernel] = sass.kernels_of(file)
    assert (kernel.architecture, kernel.name) == (90, "matmul_kernel<2,1>")
    assert (kernel.local_bytes, kernel.registers) == (0, 77)
    assert sass.count(kernel, "HMMA") == 2
    assert check(file) == []


@pytest.mark.parametrize("opcodes, frame_bytes, message", [
    ([NOP, NOP], 0, "sm_90 matmul_kernel<2,1>: has no HMMA"),
    ([HMMA, LDL, LDL], 0, "sm_90 matmul_kernel<2,1>: has 2 LDL"),
    ([HMMA, STL], 0, "sm_90 matmul_kernel<2,1>: has 1 STL"),
    ([HMMA], 48, "sm_90 matmul_kernel<2,1>: keeps 48 bytes in local memory"),
])
def test_a_kernel_that_breaks_a_rule(opcodes, frame_bytes, message):
    assert check(plugin(fatbin(cubin(opcodes, frame_bytes=frame_bytes), 90))) == [message]


def test_what_may_spill(monkeypatch):
    monkeypatch.setattr(sass, "SPILLED", {("sm_90", "matmul_kernel<2,1>"): 8})
    assert check(plugin(fatbin(cubin([HMMA, LDL], frame_bytes=8), 90))) == []
    assert check(plugin(fatbin(cubin([HMMA, LDL], frame_bytes=16), 90))) == [
        "sm_90 matmul_kernel<2,1>: keeps 16 bytes in local memory"]


WAITS = "_Z13embed_rmsnormv"


@pytest.mark.parametrize("opcodes, architecture, messages", [
    ([PREEXIT, ACQBULK, STG], 90, []),
    ([ACQBULK, STG, ACQBULK], 121, []),
    ([PREEXIT, STG], 90,
     ["sm_90 embed_rmsnorm: is launched as a dependent, and has no ACQBULK (griddepcontrol.wait)"]),
    ([NOP, STG, ACQBULK], 90,
     ["sm_90 embed_rmsnorm: has STG before its first ACQBULK (griddepcontrol.wait)"]),
    ([REDG, ACQBULK, STG], 121,
     ["sm_121 embed_rmsnorm: has REDG before its first ACQBULK (griddepcontrol.wait)"]),
    ([NOP, STG], 80, []),  # launched plainly below sm_90
])
def test_the_wait_of_dependent_launches(opcodes, architecture, messages):
    assert check(plugin(fatbin(cubin(opcodes, WAITS), architecture)), []) == messages


def test_kernels_launched_plainly_need_no_wait():
    assert check(plugin(fatbin(cubin([HMMA, STG]), 90))) == []
    assert check(plugin(fatbin(cubin([STG, HMMA, ACQBULK]), 90))) == [
        "sm_90 matmul_kernel<2,1>: has STG before its first ACQBULK (griddepcontrol.wait)"]


def test_golden_lists_launch_no_other_dependents():
    """Every kernel that a golden list launches with PDL has the rule."""
    found = set()
    for path in (ROOT / "tests" / "golden" / "launches").glob("*.txt"):
        for line in path.read_text().splitlines():
            words = line.split()
            if words[0].isdigit() and "PDL" in words:
                found.add(words[3].partition("<")[0])
    assert len(found) > 20
    assert found <= sass.DEPENDENT | set(sass.DEPENDENT_ON)


def test_rules_of_one_architecture():
    both = plugin(fatbin(cubin([HMMA]), 90), bytes(8), fatbin(cubin([QMMA_SF]), 121))
    assert check(both, RULES[1:]) == []
    wrong = plugin(fatbin(cubin([HMMA]), 90), fatbin(cubin([HMMA]), 121))
    assert check(wrong, RULES[1:]) == ["sm_121 matmul_kernel<2,1>: has no QMMA.SF",
                                       "sm_121 matmul_kernel<2,1>: has 1 HMMA"]


def test_the_table():
    for architecture, _, present, absent in sass.RULES:
        assert re.fullmatch(r"\*|sm_\d+", architecture)
        assert set(present + absent) <= set(sass.OPCODES)


def test_a_kernel_that_is_gone():
    file = plugin(fatbin(cubin([HMMA], "_Z5otherv"), 90))
    assert check(file) == ["sm_90: the table's matmul_kernel<*> is no kernel"]


@pytest.mark.parametrize("mangled, name", [
    ("_Z4join9join_args", "join"),
    ("_Z13matmul_kernelILi2ELi1EEv6matmul", "matmul_kernel<2,1>"),
    ("_Z1kILin3ELb1EEvv", "k<-3,1>"),
    ("_ZN3one3two1kILi4EEEvPf", "k<4>"),
    ("_Z7productI5shapeILi2ELi4EELi16EEv4argsi", "product<shape<2,4>,16>"),
    ("_Z3getIfhEvv", "get<f,h>"),
    ("_Z10operand_ofIL8rounding2EEv10conversion", "operand_of<2>"),
    ("_Z4tileIL6format1ELi128EJLi96ELi80EEEv4plan", "tile<1,128,96,80>"),
    ("osprey_plain_c", "osprey_plain_c"),
])
def test_names(mangled, name):
    assert sass.plain_name(mangled) == name


@pytest.mark.parametrize("data, message", [
    (b"", "not an ELF64 file"),
    (b"\x7fELF\x02" + b"\xff" * 60, "damaged"),
    (plugin(), "no kernels"),
    (plugin(fatbin(cubin([HMMA]), 90, compressed=5)), "compressed"),
])
def test_files_that_are_none(tmp_path, data, message):
    (tmp_path / "file").write_bytes(data)
    run = subprocess.run([sys.executable, TOOL, tmp_path / "file"], capture_output=True, text=True)
    assert run.returncode == 1
    assert message in run.stderr


BROKEN = """
static __global__ void matmul_kernel(float *out, int n)
{
    volatile float room[64];

    for (int i = 0; i < n; i++)
        room[i % 64] = out[i];
    out[n] = room[n % 64];
}
void launch(float *out) { matmul_kernel<<<1, 1>>>(out, 3); }
"""


@pytest.mark.skipif(not NVCC, reason="nvcc is not found")
def test_what_the_compiler_makes(tmp_path):
    (tmp_path / "broken.cu").write_text(BROKEN)
    subprocess.run([NVCC, "-gencode", "arch=compute_90a,code=sm_90a", "-c", "-o",
                    tmp_path / "broken.o", tmp_path / "broken.cu"], check=True)
    found = check((tmp_path / "broken.o").read_bytes(), [("*", "matmul_kernel", ["HMMA"], [])])
    assert "sm_90 matmul_kernel: has no HMMA" in found
    assert any("LDL" in line for line in found) and any("STL" in line for line in found)
    assert "sm_90 matmul_kernel: keeps 256 bytes in local memory" in found


@pytest.mark.skipif(not PLUGIN.exists(), reason="there is no plug-in: nvcc is not found")
def test_the_plugin():
    run = subprocess.run([sys.executable, TOOL, PLUGIN], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
