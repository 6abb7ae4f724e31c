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
