// Which engines Berth works with: Docker 20.10 or newer that runs as root. Rootless engines and Podman are refused with a
// sentence (docs/decisions/0044): in both, containers live in a network that the server itself cannot enter, so
// neither routes nor packet rules reach them. Podman also has no BuildKit, and restarts nothing by itself. PURE.

export type EngineKind = 'docker' | 'rootless' | 'podman'

interface VersionAnswer {
  Components?: { Name?: string }[] | undefined
}

interface InfoAnswer {
  SecurityOptions?: string[] | null | undefined
}

/** From the answers to /version and /info. Podman answers at Docker's socket too (podman-docker). */
export function kindOf(version: VersionAnswer, info: InfoAnswer): EngineKind {
  if ((version.Components ?? []).some(({ Name }) => /podman/i.test(Name ?? ''))) return 'podman'
  const isRootless = (info.SecurityOptions ?? []).some((option) => /^name=rootless\b/.test(option))
  return isRootless ? 'rootless' : 'docker'
}

const OLDEST = [20, 10] as const

/** Why Berth does not use it, to follow "has no working Docker engine:"; undefined when it does. */
export function refuseEngine(facts: { version: string; kind: EngineKind }): string | undefined {
  if (facts.kind === 'podman') {
    return `Podman ${facts.version} answers instead of Docker, and Berth does not support Podman`
  }
  if (facts.kind === 'rootless') {
    return `Docker ${facts.version} runs rootless, and Berth does not support that`
  }
  const [major = 0, minor = 0] = facts.version.split('.').map(Number)
  const isOld = major < OLDEST[0] || (major === OLDEST[0] && minor < OLDEST[1])
  return isOld ? `its version is ${facts.version}` : undefined
}

/** What to do about a refused one. */
export const ENGINE_ADVICE: Readonly<Record<EngineKind, string>> = {
  docker: 'Install Docker 20.10 or newer, or use the manual recipe.',
  rootless:
    'Run Docker as root: stop the rootless engine (dockerd-rootless-setuptool.sh uninstall), unset DOCKER_HOST and start docker.service; or use the manual recipe.',
  podman:
    'Remove podman-docker, install Docker 20.10 or newer (docker.io), and start it; or use the manual recipe.',
}
