// The architecture rules as tests: the import table of ARCHITECTURE.md, no cycles, purity, sizes, and fresh generated
// code.
import { execFileSync } from 'node:child_process'
import { existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join, relative, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { listStatements } from '../control-plane/src/store/engine/migrations.ts'
import { describeTables } from '../control-plane/src/store/engine/table-types.ts'
import { KEYS_PAGE, renderKeys } from '../scripts/service-file-keys.ts'
import { renderSettings, SETTINGS_PAGE } from '../scripts/settings-reference.ts'

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
  /\.test\.tsx?$|\.testing\.ts$|\/testing\//.test(s.path) || s.path.startsWith('test/')
const product = all.filter((s) => !isTest(s) && s.path.includes('/src/'))
const under = (folder: string) => product.filter((s) => s.path.startsWith(`${folder}/`))

/** Every import of `sources` that `bad` rejects, as "file imports name". */
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

/** Rows of the table in ARCHITECTURE.md: folder → what it may import, as full folder names. */
function readTable(): Map<string, Set<string>> {
  const page = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const section = /## Import table\n([\s\S]*?)\n## /.exec(page)?.[1] ?? ''
  const rows = section.split('\n').flatMap((line) => {
    const [, folder = '', , may = ''] = line.split('|').map((cell) => cell.trim())
    const name = /^`([\w/-]+)`$/.exec(folder)?.[1]
    if (!name) return []
    const base = `${name.split('/')[0]}/src`
    const allowed = [...may.matchAll(/`([\w/*-]+)`/g)].map(([, word = '']) => {
      if (word === '*') return '*'
      return word === 'src' ? base : `${base}/${word}`
    })
    return [[name, new Set(allowed)] as const]
  })
  return new Map(rows)
}

const table = readTable()
/** The row of a file: the longest folder that contains it. Files directly in `src` have their own row. */
function rowOf(path: string): string | undefined {
  const folders = path.split('/').slice(0, -1)
  for (let length = folders.length; length > 0; length--) {
    const folder = folders.slice(0, length).join('/')
    // `src` is the row of the files in it, not of folders below it
    if (table.has(folder) && (!folder.endsWith('/src') || length === folders.length)) return folder
  }
  return undefined
}

/** Numbers only, so every folder of the package may import them. */
const isLimits = (row: string | undefined): boolean => row?.endsWith('/src/limits') === true

const EXPORTS = JSON.parse(readFileSync(join(root, 'shared/package.json'), 'utf8')).exports
/** Includes type imports; `@berth/shared/…` resolves to the file behind it. */
const targetOf = ({ name, target }: Source['imports'][number]): string | undefined =>
  target ??
  (name.startsWith('@berth/shared')
    ? `shared/${EXPORTS[`.${name.slice(13)}`]?.slice(2)}`
    : undefined)

describe('the map', () => {
  test('every folder has a row, every row a folder', () => {
    expect(table.size).toBeGreaterThan(40)
    const folders = new Set(product.map((s) => rowOf(s.path) ?? `no row for ${dirname(s.path)}`))
    expect([...folders].toSorted()).toEqual([...table.keys()].toSorted())
  })

  test('imports are those of the table', () => {
    const forbidden = product.flatMap((s) => {
      const own = rowOf(s.path) ?? ''
      const allowed = table.get(own)
      return s.imports.flatMap((i) => {
        const target = targetOf(i)
        if (target === undefined || !/\.tsx?$/.test(target)) return []
        const row = rowOf(target) ?? target
        const isOwnPackage = row.split('/')[0] === own.split('/')[0]
        const isFine = isOwnPackage
          ? row === own || isLimits(row) || allowed?.has('*') || allowed?.has(row)
          : row.startsWith('shared/')
        return isFine ? [] : [`${s.path} imports ${target}: ${own} may not import ${row}`]
      })
    })
    expect(forbidden).toEqual([])
  })

  test('the dashboard knows the type of the router, and nothing else of the control plane', () => {
    const others = product.flatMap((s) =>
      s.imports
        .filter(({ name }) => name.startsWith('@berth/') && !name.startsWith('@berth/shared'))
        .filter(({ name }) => name !== '@berth/control-plane/router' || !isTypeOnly(s, name))
        .map(({ name }) => `${s.path} imports ${name}`),
    )
    expect(others).toEqual([])
  })

  test('there are no cycles', () => {
    const edges = new Map(
      product.map((s) => [s.path, s.imports.map(targetOf).filter((t) => t !== undefined)]),
    )
    expect(findCycle(edges)).toBeUndefined()
    const control = new Map([
      ['a.ts', ['b.ts']],
      ['b.ts', ['c.ts']],
      ['c.ts', ['a.ts']],
    ])
    expect(findCycle(control)).toBe('a.ts → b.ts → c.ts → a.ts')
  })

  test('a folder holds at most 20 product files', () => {
    const counts = new Map<string, number>()
    for (const { path } of product) {
      if (path.startsWith('control-plane/src/store/migrations/')) continue // ten to a folder, by number
      counts.set(dirname(path), (counts.get(dirname(path)) ?? 0) + 1)
    }
    expect([...counts].filter(([, count]) => count > 20)).toEqual([])
  })
})

/** The first cycle, written out. */
function findCycle(edges: ReadonlyMap<string, readonly string[]>): string | undefined {
  const done = new Set<string>()
  const way: string[] = []
  const visit = (file: string): string | undefined => {
    const before = way.indexOf(file)
    if (before >= 0) return [...way.slice(before), file].join(' → ')
    if (done.has(file)) return undefined
    way.push(file)
    for (const next of edges.get(file) ?? []) {
      if (next === file || !edges.has(next)) continue
      const found = visit(next)
      if (found) return found
    }
    way.pop()
    done.add(file)
    return undefined
  }
  for (const file of edges.keys()) {
    const found = visit(file)
    if (found) return found
  }
  return undefined
}

describe('who may do what', () => {
  test('pure code has no clock, no chance and no I/O', () => {
    const strict = ['control-plane/src/domain', 'agent/src/runner/plan']
    expect(
      offences(strict.flatMap(under), (i, s) => {
        const target = targetOf(i)
        if (target === undefined) return true
        const row = rowOf(target)
        return !row?.startsWith('shared/') && !isLimits(row) && row !== rowOf(s.path)
      }),
    ).toEqual([])
    const opening = (s: Source): string => /^(?:\/\/.*\n)+/.exec(s.text)?.[0] ?? ''
    const pure = product.filter(
      (s) =>
        strict.some((folder) => s.path.startsWith(`${folder}/`)) || /\bPURE\b/.test(opening(s)),
    )
    expect(pure.length).toBeGreaterThan(70)
    const impure = /\basync\b|\bawait\b|\bDate\.now\b|new Date\(\)|Math\.random|\bprocess\./
    const found = pure.filter((s) => impure.test(s.text.replaceAll(/\/\/.*|\/\*[\s\S]*?\*\//g, '')))
    expect(found.map((s) => s.path)).toEqual([])
  })

  test('gateways call app and never write to the store or import each other', () => {
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
      'control-plane/src/store/engine/migrate.ts',
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
      if (pkg === 'dashboard') continue // its pages are written with its libraries
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
    const long = all.filter(
      (s) => s.text.split('\n').length > most + 1 && !s.text.startsWith('// Generated '),
    )
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

  test('comments use plain words', () => {
    const forbidden = /\b(whoever|whatever|somebody|nobody|anew|is had)\b/i
    const found = all.flatMap((s) =>
      s.text
        .split('\n')
        .filter((line) => /^\s*(?:\/\/|\*|\/\*\*)/.test(line) && !line.includes('biome-ignore'))
        .filter((line) => forbidden.test(line.replaceAll(/`[^`]*`|"[^"]*"/g, '')))
        .map((line) => `${s.path}: ${line.trim()}`),
    )
    expect(found).toEqual([])
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

  test('the types of the tables are those that the migrations make', () => {
    const committed = readFileSync(join(root, 'control-plane/src/store/schema.ts'), 'utf8')
    expect(describeTables(listStatements('sqlite'))).toBe(committed)
  })

  test('the page of all keys of .service.yml is what the schema gives', () => {
    expect(renderKeys()).toBe(readFileSync(KEYS_PAGE, 'utf8'))
  })

  test('the page of all settings is what their table gives', () => {
    expect(renderSettings()).toBe(readFileSync(SETTINGS_PAGE, 'utf8'))
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
