"""Small kernels in SPIR-V text, assembled by spirv-as, with hand-made reflection: no compiler needed."""

from __future__ import annotations

import functools
import hashlib
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

from spirvdsl.compiled import Binding, CompiledKernel, PushMember, Reflection, SpecConstant

ASSEMBLER = next((tool for folder in (sysconfig.get_path("purelib"), *sys.path)
                  if (tool := Path(folder) / "cmeel.prefix" / "bin" / "spirv-as").exists()), "spirv-as")
LOCAL = 64

HEAD = """
OpCapability Shader
OpMemoryModel Logical GLSL450
OpEntryPoint GLCompute %main "main" %gid
OpExecutionMode %main LocalSize {local} 1 1
OpDecorate %gid BuiltIn GlobalInvocationId
OpDecorate %f32s ArrayStride 4
OpDecorate %u32s ArrayStride 4
OpMemberDecorate %F 0 Offset 0
OpMemberDecorate %U 0 Offset 0
OpDecorate %F Block
OpDecorate %U Block
{decorations}
%void = OpTypeVoid
%fn = OpTypeFunction %void
%bool = OpTypeBool
%u32 = OpTypeInt 32 0
%f32 = OpTypeFloat 32
%v3 = OpTypeVector %u32 3
%c0 = OpConstant %u32 0
%c1 = OpConstant %u32 1
%f32s = OpTypeRuntimeArray %f32
%u32s = OpTypeRuntimeArray %u32
%F = OpTypeStruct %f32s
%U = OpTypeStruct %u32s
%pF = OpTypePointer StorageBuffer %F
%pU = OpTypePointer StorageBuffer %U
%pf = OpTypePointer StorageBuffer %f32
%pu = OpTypePointer StorageBuffer %u32
%pin = OpTypePointer Input %v3
%gid = OpVariable %pin Input
{globals}
%main = OpFunction %void None %fn
%entry = OpLabel
%id = OpLoad %v3 %gid
%i = OpCompositeExtract %u32 %id 0
{body}
OpReturn
OpFunctionEnd
"""

# Runs {body} for i < n, n being the push constant %n.
GUARDED = """
%inside = OpULessThan %bool %i %n
OpSelectionMerge %after None
OpBranchConditional %inside %then %after
%then = OpLabel
{body}
OpBranch %after
%after = OpLabel
"""


def assemble(text: str, version: str = "spv1.3") -> bytes:
    """SPIR-V words of an assembly text."""
    return subprocess.run([ASSEMBLER, "--target-env", version, "-o", "-", "-"], input=text.encode(), check=True,
                          capture_output=True).stdout


def record(name: str, text: str, bindings: tuple[Binding, ...], push: tuple[PushMember, ...] = (),
           spec: tuple[SpecConstant, ...] = (), **changes) -> CompiledKernel:
    """A CompiledKernel; `changes` replace fields of its reflection."""
    spirv = assemble(text, "spv" + changes.get("spirv_version", "1.3"))
    reflection = Reflection(
        entry="main", workgroup_size=(LOCAL, 1, 1), bindings=bindings, push=push,
        push_bytes=max((m.offset + m.size for m in push), default=0), workgroup_bytes=0, spec_constants=spec,
        features=(), spirv_version="1.3")
    return CompiledKernel(name, spirv, replace(reflection, **changes), hashlib.sha256(spirv).hexdigest())


def storage(name: str, number: int, access: str, element: str = "f32") -> Binding:
    """A storage buffer of 4-byte elements."""
    return Binding(name, 0, number, access, "storage", element, 4)


@functools.cache
def saxpy() -> CompiledKernel:
    """out[i] = a * x[i] + y[i] for i < n; push: a f32, n u32."""
    text = HEAD.format(
        local=LOCAL,
        decorations="".join(f"OpDecorate %{n} DescriptorSet 0\nOpDecorate %{n} Binding {i}\n"
                            for i, n in enumerate(("x", "y", "out")))
        + "OpDecorate %x NonWritable\nOpDecorate %y NonWritable\n"
          "OpMemberDecorate %P 0 Offset 0\nOpMemberDecorate %P 1 Offset 4\nOpDecorate %P Block",
        globals="""
%x = OpVariable %pF StorageBuffer
%y = OpVariable %pF StorageBuffer
%out = OpVariable %pF StorageBuffer
%P = OpTypeStruct %f32 %u32
%pP = OpTypePointer PushConstant %P
%ppf = OpTypePointer PushConstant %f32
%ppu = OpTypePointer PushConstant %u32
%push = OpVariable %pP PushConstant""",
        body="""
%pa = OpAccessChain %ppf %push %c0
%a = OpLoad %f32 %pa
%pn = OpAccessChain %ppu %push %c1
%n = OpLoad %u32 %pn
""" + GUARDED.format(body="""
%px = OpAccessChain %pf %x %c0 %i
%xv = OpLoad %f32 %px
%py = OpAccessChain %pf %y %c0 %i
%yv = OpLoad %f32 %py
%m = OpFMul %f32 %a %xv
%s = OpFAdd %f32 %m %yv
%po = OpAccessChain %pf %out %c0 %i
OpStore %po %s"""))
    return record("saxpy", text, (storage("x", 0, "in"), storage("y", 1, "in"), storage("out", 2, "out")),
                  (PushMember("a", "f32", 0, 4), PushMember("n", "u32", 4, 4)))


@functools.cache
def increment() -> CompiledKernel:
    """data[i] += 1 for i < n; push: n u32."""
    text = HEAD.format(
        local=LOCAL,
        decorations="OpDecorate %data DescriptorSet 0\nOpDecorate %data Binding 0\n"
                    "OpMemberDecorate %P 0 Offset 0\nOpDecorate %P Block",
        globals="""
%data = OpVariable %pU StorageBuffer
%P = OpTypeStruct %u32
%pP = OpTypePointer PushConstant %P
%ppu = OpTypePointer PushConstant %u32
%push = OpVariable %pP PushConstant""",
        body="""
%pn = OpAccessChain %ppu %push %c0
%n = OpLoad %u32 %pn
""" + GUARDED.format(body="""
%p = OpAccessChain %pu %data %c0 %i
%v = OpLoad %u32 %p
%w = OpIAdd %u32 %v %c1
OpStore %p %w"""))
    return record("increment", text, (storage("data", 0, "inout", "u32"),), (PushMember("n", "u32", 0, 4),))


@functools.cache
def scale() -> CompiledKernel:
    """out[i] = x[i] * factor, factor a specialisation constant (default 3); whole workgroups only."""
    text = HEAD.format(
        local=LOCAL,
        decorations="OpDecorate %x DescriptorSet 0\nOpDecorate %x Binding 0\nOpDecorate %x NonWritable\n"
                    "OpDecorate %out DescriptorSet 0\nOpDecorate %out Binding 1\nOpDecorate %factor SpecId 7",
        globals="""
%factor = OpSpecConstant %u32 3
%x = OpVariable %pU StorageBuffer
%out = OpVariable %pU StorageBuffer""",
        body="""
%p = OpAccessChain %pu %x %c0 %i
%v = OpLoad %u32 %p
%w = OpIMul %u32 %v %factor
%q = OpAccessChain %pu %out %c0 %i
OpStore %q %w""")
    return record("scale", text, (storage("x", 0, "in", "u32"), storage("out", 1, "out", "u32")),
                  spec=(SpecConstant("factor", 7, "u32", 3),))


@functools.cache
def uniform_add() -> CompiledKernel:
    """data[i] += value, value a word of a uniform buffer; whole workgroups only."""
    text = HEAD.format(
        local=LOCAL,
        decorations="OpDecorate %data DescriptorSet 0\nOpDecorate %data Binding 0\nOpDecorate %args DescriptorSet 0\n"
                    "OpDecorate %args Binding 3\nOpMemberDecorate %A 0 Offset 0\nOpDecorate %A Block",
        globals="""
%A = OpTypeStruct %u32
%pA = OpTypePointer Uniform %A
%puu = OpTypePointer Uniform %u32
%data = OpVariable %pU StorageBuffer
%args = OpVariable %pA Uniform""",
        body="""
%pv = OpAccessChain %puu %args %c0
%value = OpLoad %u32 %pv
%p = OpAccessChain %pu %data %c0 %i
%v = OpLoad %u32 %p
%w = OpIAdd %u32 %v %value
OpStore %p %w""")
    return record("uniform_add", text, (storage("data", 0, "inout", "u32"),
                                        Binding("args", 0, 3, "in", "uniform", "u32", 4)))


@functools.cache
def empty() -> CompiledKernel:
    """Does nothing; no bindings, no push constants."""
    return record("empty", HEAD.format(local=LOCAL, decorations="", globals="", body=""), ())


class FakeKernel:
    """What launch() sees of a spirvdsl kernel."""

    def __init__(self, compiled: CompiledKernel, signature: list[str] | None = None):
        self._compiled, self.compiles = compiled, 0
        r = compiled.reflection
        self.signature = signature or [b.name for b in r.bindings] + [m.name for m in r.push]

    def compile(self) -> CompiledKernel:
        self.compiles += 1
        return self._compiled


@functools.cache
def forever() -> CompiledKernel:
    """Runs until data[0] is not 0, which it never becomes: what a hung device looks like."""
    text = HEAD.format(
        local=LOCAL,
        decorations="OpDecorate %data DescriptorSet 0\nOpDecorate %data Binding 0\nOpDecorate %data Volatile",
        globals="%data = OpVariable %pU StorageBuffer",
        body="""
OpBranch %head
%head = OpLabel
%p = OpAccessChain %pu %data %c0 %c0
%v = OpAtomicIAdd %u32 %p %c1 %c0 %c0
%go = OpIEqual %bool %v %c0
OpLoopMerge %done %next None
OpBranchConditional %go %next %done
%next = OpLabel
OpBranch %head
%done = OpLabel""")
    return record("forever", text, (storage("data", 0, "inout", "u32"),))
