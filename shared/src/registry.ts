// Names of image registries. One registry has several names only in the case of Docker Hub, whose API, website and
// configuration files each use another one.

/** What people may write for a registry: `ghcr.io`, `registry.example.com:5000`. */
export const REGISTRY_HOST =
  /^(?:[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)*|\[[0-9a-f:]+\])(?::[0-9]{1,5})?$/

const DOCKER_HUB = new Set([
  'docker.io',
  'index.docker.io',
  'registry-1.docker.io',
  'hub.docker.com',
])

/** The one name of a registry, without scheme and path: `https://index.docker.io/v1/` is `docker.io`. */
export function registryHost(written: string): string {
  const host = written
    .trim()
    .toLowerCase()
    .replace(/^https?:\/\//, '')
    .replace(/\/.*$/, '')
  return DOCKER_HUB.has(host) ? 'docker.io' : host
}

/** The registry of an image: `postgres:18` is on `docker.io`. */
export function registryOf(reference: string): string {
  const [first = '', ...rest] = reference.split('/')
  const isHost = rest.length > 0 && (/[.:]/.test(first) || first === 'localhost')
  return isHost ? registryHost(first) : 'docker.io'
}
