// The house rules as tests: who may import whom, what is pure, how large things may be, that generated code is fresh.
// A rule that only people keep is not kept.
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const PACKAGES = ['shared', 'control-plane', 'agent', 'cli', 'dashboard']

interface Source {
  path: string
  text: string
  imports: { name: string; target: string | undefined }[]
}

const IMPORT =
  /(?:^|\n)\s*(?:import|export)\b[^'"\n]*?(?:\n[^'"]*?)?from\s+['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]\s*\)|(?:^|\n)import\s+['"]([^'"]+)['"]/g

function readSource(file: string): Source {
  const text = readFileSync(file, 'utf8')
  const imports = [...text.matchAll(IMPORT)].map((match) => {
    const name = match[1] ?? match[2] ?? match[3] ?? ''
    const target = name.startsWith('.') ? relative(root, resolve(dirname(file), name)) : undefined
    return { name, target }
  })
  return { path: relative(root, file), text, imports }
}

const all = globSync([...PACKAGES, 'test', 'scripts'].map((p) => join(root, p, '**/*.{ts,tsx}')))
  .filter((file) => !/node_modules|\/gen\/|\/dist\//.test(file))
  .map(readSource)
const isTest = (s: Source) =>
  /\.test\.ts$|\.testing\.ts$/.test(s.path) || s.path.startsWith('test/')
const product = all.filter((s) => !isTest(s) && !s.path.startsWith('scripts/'))
const under = (folder: string) => product.filter((s) => s.path.startsWith(`${folder}/`))

/** Every import of `sources` that `bad` names, as "file imports name". */
function offences(
  sources: Source[],
  bad: (i: Source['imports'][number], s: Source) => boolean,
): string[] {
  return sources.flatMap((s) =>
    s.imports.filter((i) => bad(i, s)).map((i) => `${s.path} imports ${i.target ?? i.name}`),
  )
}
const into = (target: string | undefined, ...folders: string[]) =>
  target !== undefined && folders.some((f) => target.startsWith(`${f}/`))

test('the reader of imports sees them', () => {
  const server = all.find((s) => s.path === 'control-plane/src/server.ts')
  const names = server?.imports.map((i) => i.target ?? i.name) ?? []
  expect(names).toContain('control-plane/src/gateways/agents/gateway.ts')
  expect(names).toContain('pino')
})

describe('who may import whom', () => {
  test('packages know each other only through shared', () => {
    expect(
      offences(product, ({ name, target }, s) => {
        const own = s.path.split('/')[0] ?? ''
        // the dashboard's one window into the control plane: the type of its router
        if (name === '@berth/control-plane/router')
          return own !== 'dashboard' || !isTypeOnly(s, name)
        if (name.startsWith('@berth/')) return own === 'shared' || !name.startsWith('@berth/shared')
        return target !== undefined && !target.startsWith(`${own}/`)
      }),
    ).toEqual([])
  })

  test('domain and recipes are pure: shared and themselves, no node:, no clock, no chance', () => {
    const pure = [...under('control-plane/src/domain'), ...under('agent/src/runner/plan')]
    expect(pure.length).toBeGreaterThan(5)
    expect(
      offences(pure, ({ name, target }, s) => {
        const own = s.path.startsWith('agent/') ? dirname(s.path) : 'control-plane/src/domain'
        return target === undefined ? !name.startsWith('@berth/shared') : !into(target, own)
      }),
    ).toEqual([])
    const impure = /\basync\b|\bawait\b|\bDate\.now\b|new Date\(\)|Math\.random|\bprocess\./
    const found = pure.filter((s) => impure.test(s.text.replaceAll(/\/\/.*|\/\*[\s\S]*?\*\//g, '')))
    expect(found.map((s) => s.path)).toEqual([])
  })

  test('doors call app and never write to the store or import each other', () => {
    const cp = 'control-plane/src'
    const gateways = ['rest', 'trpc', 'agents'].map((d) => `${cp}/gateways/${d}`)
    expect(
      offences(gateways.flatMap(under), ({ target }, s) => {
        return gateways.some((d) => into(target, d) && !s.path.startsWith(`${d}/`))
      }),
    ).toEqual([])
    const writes = /\b(insert|update|delete|move|raise|take|consume)[A-Z]\w*\b/
    const writers = gateways.flatMap(under).flatMap((s) =>
      [...s.text.matchAll(/import\s*(?:type\s*)?\{([^}]*)\}\s*from\s*'[^']*\/store\/[^']*'/g)]
        .flatMap((m) => (m[1] ?? '').split(','))
        .map((n) => n.trim())
        .filter((n) => writes.test(n))
        .map((n) => `${s.path} imports ${n}`),
    )
    expect(writers).toEqual([])
  })

  test('only app opens transactions, only store speaks SQL', () => {
    const cp = under('control-plane/src')
    const opens = cp.filter((s) => /\.transaction\(\)/.test(s.text)).map((s) => s.path)
    expect(opens.toSorted()).toEqual([
      'control-plane/src/app/core/transaction.ts',
      'control-plane/src/store/engine/migrations.ts',
    ])
    const sql = /\.(selectFrom|insertInto|updateTable|deleteFrom)\(/
    const speak = cp.filter((s) => sql.test(s.text) && !s.path.includes('/store/'))
    expect(speak.map((s) => s.path)).toEqual([])
  })

  test('events reach the bus through emit alone: their numbers follow commits', () => {
    const writers = under('control-plane/src').filter((s) => /\binsertEvents\b/.test(s.text))
    expect(writers.map((s) => s.path).toSorted()).toEqual([
      'control-plane/src/app/core/transaction.ts',
      'control-plane/src/store/core/events.ts',
    ])
    const direct = under('control-plane/src').filter((s) => /insertInto\('events'\)/.test(s.text))
    expect(direct.map((s) => s.path)).toEqual(['control-plane/src/store/core/events.ts'])
  })

  test('each third-party package is imported in one folder per workspace package', () => {
    const shared = new Set(['zod', '@bufbuild/protobuf', '@bufbuild/protobuf/wkt'])
    const folders = new Map<string, Set<string>>()
    for (const s of product) {
      const [pkg, , folder] = s.path.split('/')
      if (pkg === 'dashboard') continue // its libraries are what pages are written in
      for (const { name, target } of s.imports) {
        const local = target !== undefined || name.startsWith('node:') || name.startsWith('@berth/')
        if (local || shared.has(name) || isTypeOnly(s, name)) continue
        const base = name.startsWith('@')
          ? name.split('/').slice(0, 2).join('/')
          : name.split('/')[0]
        const key = `${pkg} ${base}`
        const at = folder?.endsWith('.ts') ? '(root)' : (folder ?? '(root)')
        if (at === '(root)') continue // composition roots construct
        folders.set(key, (folders.get(key) ?? new Set()).add(at))
      }
    }
    const spread = [...folders].filter(([, at]) => at.size > 1)
    expect(spread.map(([name, at]) => `${name}: ${[...at].join(', ')}`)).toEqual([])
  })

  test('secret values have one reader', () => {
    const values = 'control-plane/src/app/environments/values.ts'
    const readers = product.filter((s) => s.imports.some((i) => i.target === values))
    expect(readers.length).toBeGreaterThan(0)
    for (const s of readers) expect(s.path).toMatch(/^control-plane\/src\/gateways\/agents\//)
  })
})

function isTypeOnly(s: Source, name: string): boolean {
  const escaped = name.replaceAll(/[/.]/g, '\\$&')
  const all = [...s.text.matchAll(new RegExp(`import ([^'"]*?)from ['"]${escaped}['"]`, 'g'))]
  return all.length > 0 && all.every((m) => m[1]?.startsWith('type '))
}

describe('size and speech', () => {
  test('files stay small and say what they are', () => {
    const most = 600
    const long = all.filter((s) => s.text.split('\n').length > most + 1)
    expect(long.map((s) => s.path)).toEqual([])
    const silent = product.filter(
      (s) => !/^(#!.*\n)?\/\//.test(s.text) && !/index\.ts$/.test(s.path),
    )
    expect(silent.map((s) => s.path)).toEqual([])
  })

  test('nothing is put off, nothing is shelled out', () => {
    const later = new RegExp(`\\b(${['TO' + 'DO', 'FIX' + 'ME', 'X' + 'XX'].join('|')})\\b`)
    expect(all.filter((s) => later.test(s.text)).map((s) => s.path)).toEqual([])
    const shell = /\bexecSync\(|(?<!\.)\bexec\(\s*[`'"]|shell:\s*true/
    expect(product.filter((s) => shell.test(s.text)).map((s) => s.path)).toEqual([])
  })

  test('forbidden names', () => {
    const bad = all.filter((s) => /(^|\/)(utils?|helpers?|common|services)(\/|\.ts$)/.test(s.path))
    expect(bad.map((s) => s.path)).toEqual([])
  })
})

describe('scripts and tests', () => {
  test('every command of package.json runs under the pinned Node', () => {
    const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    for (const [name, line] of Object.entries(scripts)) {
      expect(line, name).toMatch(/sh scripts\/bootstrap\.sh exec /)
    }
  })

  test('no test is tried again', () => {
    const again = /\bretry:|--retry\b/
    const files = ['vitest.config.ts', 'scripts/check.sh', '.ci/run', 'package.json']
    const settings = files.filter((file) => again.test(readFileSync(join(root, file), 'utf8')))
    const tests = all.filter((s) => /\b(?:describe|it|test)[.\w]*\([^\n]*\{\s*retry:/.test(s.text))
    expect([...settings, ...tests.map((s) => s.path)]).toEqual([])
  })
})

describe('what is made from something else is fresh', () => {
  test('lock files hold no addresses', () => {
    for (const file of ['pnpm-lock.yaml', 'scripts/toolchain/package-lock.json']) {
      expect(readFileSync(join(root, file), 'utf8').includes('://'), file).toBe(false)
    }
  })

  test('generated protobuf code is what the schema gives', () => {
    const out = mkdtempSync(join(tmpdir(), 'berth-gen-'))
    try {
      const template = JSON.stringify({
        version: 'v2',
        plugins: [
          {
            local: join(root, 'node_modules/.bin/protoc-gen-es'),
            out,
            opt: ['target=ts', 'import_extension=ts', 'erasable_syntax=true'],
          },
        ],
      })
      execFileSync(join(root, 'node_modules/.bin/buf'), ['generate', '--template', template], {
        cwd: join(root, 'proto'),
        stdio: 'pipe',
      })
      const file = 'berth/agent/v1/agent_pb.ts'
      const committed = join(root, 'shared/src/wire/gen', file)
      expect(existsSync(committed)).toBe(true)
      expect(readFileSync(join(out, file), 'utf8')).toBe(readFileSync(committed, 'utf8'))
    } finally {
      rmSync(out, { recursive: true, force: true })
    }
  })
})
