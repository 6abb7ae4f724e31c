// Decides which images a repository may build upon. PURE. Names of images that Berth built cannot be guessed, so this
// is not what protects them; it reports early and clearly what would fail later. It does exclude frontends, which are
// programs that read a Dockerfile for the engine and may request other users' caches from it.

export const NOT_SHARED =
  'is the name of an image that Berth built for an environment. Images of environments cannot be used by others: ' +
  'build it from this repository, or push it to a registry and name it there.'

/** Whether it names one of our images, in any spelling. */
export function isOwnImage(reference: string, isImageName: (name: string) => boolean): boolean {
  const name = reference
    .replace(/^docker-image:\/\//, '')
    .replace(/^(?:index\.)?docker\.io\/|^localhost(?::\d+)?\//, '')
  return isImageName(name)
}

/** The only frontend that stays within the build's own request. */
const FRONTEND =
  /^(?:(?:index\.)?docker\.io\/)?docker\/dockerfile(?:-upstream)?(?::[\w.-]+)?(?:@sha256:[0-9a-f]{64})?$/

/** Directives precede the first instruction. Parses more leniently than any engine does. */
function findFrontend(source: string): string | undefined {
  for (const line of source.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const [, name] = /^\s*(?:#|\/\/)\s*syntax\s*=\s*(\S.*?)\s*$/i.exec(line) ?? []
    if (name !== undefined) return name
    if (!/^\s*(?:$|#|\/\/)/.test(line)) return undefined
  }
  return undefined
}

const REFERENCES = /^\s*FROM\s+(?:--\S+\s+)*["']?([^\s"']+)|[-,=\s]from=["']?([^\s"',]+)/gim

/** The fault as a sentence; undefined when no fault is known before the build. */
export function findDockerfileFault(
  source: string,
  isOurs: (reference: string) => boolean,
): string | undefined {
  if (/^\uFEFF?\s*\{/.test(source)) return 'a Dockerfile cannot begin with `{`.'
  const frontend = findFrontend(source)
  if (frontend !== undefined && !FRONTEND.test(frontend)) {
    return `\`# syntax=${frontend}\` names another program to read this file. Only docker/dockerfile can be named there; remove the line.`
  }
  for (const [, base, from] of source.matchAll(REFERENCES)) {
    const reference = base ?? from ?? ''
    if (isOurs(reference)) return `\`${reference}\` ${NOT_SHARED}`
  }
  return undefined
}

interface Stage {
  name: string
  base: string | undefined
  /** Images and stages that its instructions copy from or mount. */
  sources: string[]
}

/** `$NAME`, `${NAME}` and `${NAME:-default}`; undefined when a name has no value or the text is of another form. */
function expand(text: string, values: ReadonlyMap<string, string>): string | undefined {
  let isKnown = true
  const expanded = text.replace(
    /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g,
    (_all, braced: string | undefined, otherwise: string | undefined, bare: string | undefined) => {
      const value = values.get(braced ?? bare ?? '') || otherwise
      if (value === undefined) isKnown = false
      return value ?? ''
    },
  )
  return isKnown && !expanded.includes('$') ? expanded : undefined
}

const unquote = (text: string): string => text.replace(/^(["'])(.*)\1$/, '$2')

/** The stages of a Dockerfile, as far as a plain reader can tell. */
function stagesOf(source: string, args: Readonly<Record<string, string>>): Stage[] {
  const lines = source
    .replace(/^[ \t]*#.*\r?\n/gm, '')
    .replace(/\\[ \t]*\r?\n/g, ' ')
    .split(/\r?\n/)
  const values = new Map<string, string>()
  const stages: Stage[] = []
  for (const line of lines) {
    const [, word = '', rest = ''] = /^\s*([A-Za-z]+)\s+(.*?)\s*$/.exec(line) ?? []
    const stage = stages.at(-1)
    if (/^arg$/i.test(word) && !stage) {
      for (const one of rest.split(/\s+/)) {
        const [, name = '', written] = /^(\w+)(?:=(.*))?$/.exec(one) ?? []
        const value =
          args[name] ?? (written === undefined ? undefined : expand(unquote(written), values))
        if (value !== undefined) values.set(name, value)
      }
    } else if (/^from$/i.test(word)) {
      const [, image = '', name] = /^(?:--\S+\s+)*(\S+)(?:\s+as\s+(\S+))?$/i.exec(rest) ?? []
      const base = expand(unquote(image), values)
      stages.push({ name: (name ?? '').toLowerCase(), base, sources: [] })
    } else if (stage && /^(?:copy|add|run)$/i.test(word)) {
      for (const [, from = ''] of rest.matchAll(
        /(?:^|\s)--(?:from=|mount=\S*?\bfrom=)([^\s,]+)/g,
      )) {
        stage.sources.push(unquote(from))
      }
    }
  }
  return stages
}

/** Images of registries that the build of a target needs. Leaves out what it cannot read with certainty. */
export function baseImages(
  source: string,
  { args, target }: { args: Readonly<Record<string, string>>; target: string | null },
): string[] {
  if (/^\s*#\s*escape\s*=/im.test(source) || /<<-?\s*["']?\w/.test(source)) return []
  const stages = stagesOf(source, args)
  const indexOf = (name: string, before: number): number =>
    stages.findLastIndex((stage, index) => index < before && stage.name === name.toLowerCase())
  const named = target === null ? -1 : indexOf(target, stages.length)
  const numbered = target !== null && /^\d+$/.test(target) ? Number(target) : -1
  const last = target === null ? stages.length - 1 : Math.max(named, numbered)
  const found = new Set<string>()
  const seen = new Set<number>()
  const visit = (index: number): void => {
    const stage = stages[index]
    if (!stage || seen.has(index)) return
    seen.add(index)
    for (const name of [stage.base, ...stage.sources]) {
      if (name === undefined || name === '' || name === 'scratch' || name.includes('$')) continue
      const number = /^\d+$/.test(name) ? Number(name) : indexOf(name, index)
      if (number >= 0) visit(number)
      else found.add(name)
    }
  }
  visit(last)
  return [...found]
}
