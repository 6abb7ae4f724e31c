// Values that reach the engine or a command line: what is accepted, and what is refused with which message. A refused
// value never leaves the parser.
import { describe, expect, it } from 'vitest'
import { readServiceFile } from './index.ts'

const HEX = '0123456789abcdef'.repeat(4)

/** The messages for one value at one place. */
function messagesFor(service: Record<string, unknown>, volumes: string[] = ['data']): string[] {
  const file = { docker: { volumes, services: { web: { port: 80, public: false, ...service } } } }
  return readServiceFile(JSON.stringify(file)).problems.map(({ message, line }) => {
    expect(line).toBe(1)
    return message.replace('docker.services.web.', '')
  })
}

describe('image', () => {
  it.each([
    'postgres',
    'postgres:18',
    'library/postgres:18-alpine',
    'docker.io/library/postgres:18',
    'GHCR.io/acme/app:V1.2',
    'localhost:5000/app',
    '[::1]:5000/app:1',
    'registry.example.com:5000/team/a_b--c.d/app:v1.2_3',
    `app@sha256:${HEX}`,
    `app:1@sha256:${HEX}`,
    'abcdef012345',
  ])('%s is taken', (image) => {
    expect(messagesFor({ image })).toEqual([])
  })

  const general = 'must be an image such as postgres:18, at most 512 characters'
  it.each([
    ['--privileged', `image ${general}, got "--privileged"`],
    ['-v/:/host', `image ${general}, got "-v/:/host"`],
    ['a:-tag', `image ${general}, got "a:-tag"`],
    ['a/../b', `image ${general}, got "a/../b"`],
    ['/a', `image ${general}, got "/a"`],
    ['a//b', `image ${general}, got "a//b"`],
    ['a:', `image ${general}, got "a:"`],
    ['a@sha256:12', `image ${general}, got "a@sha256:12"`],
    ['https://images.example.com/a', `image ${general}, got "https://images.example.com/a"`],
    ['a?b', `image ${general}, got "a?b"`],
    ['a;b', `image ${general}, got "a;b"`],
    ['ä', `image ${general}, got "ä"`],
    ['a\u0001', `image ${general}, got "a\\u0001"`],
    ['a b', 'image must not hold spaces, got "a b"'],
    ['a\n--privileged', 'image must not hold spaces, got "a\\n--privileged"'],
    ['Acme/App:1', 'image must be in lower case but for its tag, got "Acme/App:1"'],
    [
      `sha256:${HEX}`,
      'image must name an image of a registry, not an image\'s id, got "sha256:0123456789abcdef0123456789abcdef0…"',
    ],
    [
      HEX,
      'image must name an image of a registry, not an image\'s id, got "0123456789abcdef0123456789abcdef01234567…"',
    ],
    ['a'.repeat(513), `image ${general}, got "${'a'.repeat(40)}…"`],
  ])('%s is refused', (image, message) => {
    expect(messagesFor({ image })).toEqual([message])
  })
})

describe('build', () => {
  it.each(['.', './web', 'apps/web', 'a..b', 'a b', '.docker'])(
    'the folder %s is taken',
    (build) => {
      expect(messagesFor({ build })).toEqual([])
      expect(messagesFor({ build: { context: '.', dockerfile: build } })).toEqual([])
    },
  )

  const address = 'must be a path inside the repository, not an address'
  it.each([
    ['https://example.com/a.git', `${address}, got "https://example.com/a.git"`],
    ['HTTP://example.com/a', `${address}, got "HTTP://example.com/a"`],
    ['git://example.com/a', `${address}, got "git://example.com/a"`],
    ['file:///etc', `${address}, got "file:///etc"`],
    ['git@example.com:a/b.git', `${address}, got "git@example.com:a/b.git"`],
    ['-', 'must not begin with \'-\', got "-"'],
    ['--output=/etc', 'must not begin with \'-\', got "--output=/etc"'],
    ['a\u0007', 'must not hold control characters, got "a\\u0007"'],
  ])('%s is refused as folder and as Dockerfile', (value, message) => {
    expect(messagesFor({ build: value })).toEqual([`build ${message}`])
    expect(messagesFor({ build: { context: value } })).toEqual([`build.context ${message}`])
    expect(messagesFor({ build: { dockerfile: value } })).toEqual([`build.dockerfile ${message}`])
  })

  it.each(['/etc', '..', 'a/../../b', ''])('%s is no path of the repository', (value) => {
    const [message, ...more] = messagesFor({ build: { context: value } })
    expect(message).toMatch(
      /^build\.context must be a path inside the repository, relative, without '\.\.'/,
    )
    expect(more).toEqual([])
  })

  it('takes names of stages as target alone', () => {
    for (const target of ['runtime', 'Prod_2.x', '0']) {
      expect(messagesFor({ build: { target } })).toEqual([])
    }
    for (const target of ['--no-cache', '-x', 'a b', 'a/b', 'a\n', '', 'x'.repeat(129)]) {
      const [message] = messagesFor({ build: { target } })
      expect(message, target).toMatch(/^build\.target must be the name of a build stage/)
    }
  })

  it('keeps the arguments of the engine to Berth', () => {
    const args = { BUILDKIT_SYNTAX: 'x/y', BUILDKIT_CACHE_MOUNT_NS: 'z', BUILDKIT_INLINE_CACHE: 1 }
    expect(messagesFor({ build: { args } })).toEqual([
      'build.args.BUILDKIT_SYNTAX is set by Berth and cannot be given here; remove it',
      'build.args.BUILDKIT_CACHE_MOUNT_NS is set by Berth and cannot be given here; remove it',
    ])
  })
})

describe('a volume', () => {
  const of = (volume: string): string[] => messagesFor({ image: 'a', volumes: [volume] })

  it.each([
    '/data',
    '/data/',
    '/process',
    '/development/a',
    '/run/mysqld',
    '/var/lib/a',
    '/etc/app',
    '/usr/share/x',
    '/a..b/c',
  ])('at %s is taken', (path) => {
    expect(of(`data:${path}`)).toEqual([])
    expect(of(`data:${path}:ro`)).toEqual([])
  })

  it.each([
    '/proc',
    '/proc/',
    '/proc/sys/kernel',
    '/sys',
    '/sys/fs/cgroup',
    '/dev',
    '/dev/shm',
    '/run/berth',
    '/run/berth/variables.sh',
    '/var/run/berth',
  ])('in %s is refused', (path) => {
    const folder = /^(\/var)?\/run\/berth|^\/[a-z]+/.exec(path)?.[0]
    expect(of(`data:${path}`)).toEqual([
      `volumes.0 cannot be mounted in ${folder}, got "data:${path}"`,
    ])
    expect(of(`data:${path}:ro`)).toHaveLength(1)
  })

  it.each(['/', '/etc', '/usr', '/bin/', '/lib64', '/run'])('cannot replace %s', (path) => {
    const folder = path.length > 1 ? path.replace(/\/$/, '') : path
    const message = `volumes.0 cannot replace ${folder} of the image; mount a folder below it`
    expect(of(`data:${path}`)).toEqual([message])
  })

  it.each(['/a/../proc', '/./proc', '//proc', '/a/..', '/a/.', '/..'])(
    'at %s is refused for its spelling',
    (path) => {
      expect(of(`data:${path}`)).toEqual([
        `volumes.0 must have a path without '.', '..' and '//', got "data:${path}"`,
      ])
    },
  )

  it.each(['data:srv', '/etc:/etc', 'data', 'data:/a:rw', 'data:/a:ro:z', '-v:/a'])(
    '%s is no volume',
    (volume) => {
      expect(of(volume)).toEqual([
        `volumes.0 must be name:/path or name:/path:ro, with a name from docker.volumes, got "${volume}"`,
      ])
    },
  )

  it('has a folder of its own', () => {
    const volumes = ['data:/srv', 'more:/srv/', 'more:/other']
    expect(messagesFor({ image: 'a', volumes }, ['data', 'more'])).toEqual([
      'docker.services.web mounts twice at /srv; remove one',
    ])
  })
})
