import sys, json
sys.path.insert(0, "/work/main")
from kernels.formats import FORMATS
from kernels.matmul import Embed, GateUp, Gemv, Tile
from kernels.norm import RmsNorm
from kernels.quantize import Quantize, SwiGLU
from kernels.rope import RopeStore
from kernels.attention import Attention, Combine
from kernels.repack import Repack
try:
    from kernels import sample
except ImportError:
    import types as sample
from spirvdsl import f16, f32, f16x4, f32x4, CompileError
import spirvdsl
from spirvdsl.lang.kernel import Launchable, Kernel
def stamps():
    out = []
    for f in FORMATS.values():
        out += [Embed[f], Repack[f]]
        for i in (False, True):
            if i and not f.INTEGER: continue
            for c in (1, 4):
                out.append(Gemv.stamp(fmt=f, INT=i, BIAS=c == 1, RESIDUAL=c == 4, LANES=8, COLS=c, THREADS=64))
            out.append(GateUp.stamp(fmt=f, INT=i, LANES=8, COLS=1, THREADS=64))
            out.append(Tile.stamp(fmt=f, INT=i, BM=32, BN=32, TM=2, TN=2))
    for q in (False, True):
        for ql in (4, 8):
            out += [RmsNorm[True, q, ql], SwiGLU[q, ql], Combine[64, q, ql]]
        for split in (False, True): out.append(Attention.stamp(HD=64 if q else 63, GROUP=2, CT4=f16x4 if q else f32x4, SPLIT=split, SG=8))
    for c in (f16, f32):
        for n in (False, True): out.append(RopeStore[64, 64, n, c])
    out += [Quantize[4], Quantize[8]]
    for n, v in sorted(vars(sample).items()):
        if isinstance(v, Launchable): out.append(v)
        elif isinstance(v, type) and issubclass(v, Kernel) and v is not Kernel and v.__module__ == sample.__name__:
            try: out.append(v.stamp())
            except CompileError as e: print("skip", n, str(e).splitlines()[0], file=sys.stderr)
    return out
if __name__ == "__main__":
    import time
    t = time.perf_counter()
    s = stamps()
    r = {}
    for k in s:
        try: r[k.name] = k.compile().hash
        except CompileError as e: r[k.name] = str(e)
    print(len(s), "stamps", round(time.perf_counter() - t, 2), "s", file=sys.stderr)
    json.dump(r, open(sys.argv[1], "w"), indent=1)
