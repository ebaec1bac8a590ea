import json,sys
a,b=(json.load(open(p)) for p in sys.argv[1:3])
print([k for k in a if k in b and a[k]!=b[k]], "gone", [k for k in a if k not in b], "new", [k for k in b if k not in a])
