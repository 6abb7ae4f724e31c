import json
d={n:{t:(c,m,a) for t,c,m,a in json.load(open(f'/tmp/post-scratch/v-{n}-stats.json'))} for n in ('large','small','largeNoKind')}
N=1890
rows=[]
for t in d['large']:
    r=[]
    for n in d:
        c,m,a=d[n].get(t,(0,0,0)); r+= [c/N, a*c/N]
    rows.append((r[1]-r[3],r,t))
rows.sort(reverse=True)
for diff,r,t in rows[:25]: print(' '.join(f'{x:7.2f}' for x in r),t[:200].replace('\n',' '))
for n,i in (('large',1),('small',3),('nokind',5)): print(n,sum(x[1][i] for x in rows))
