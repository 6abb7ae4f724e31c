// Compose files of the kinds that teams have: each result passes the checks of .service.yml, holds no secret, and what is
// not in it is listed with a reason.
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: placeholders of compose, not of JavaScript
import { readdirSync, readFileSync } from 'node:fs'
import { readServiceFile } from '@berth/shared/service-file'
import { describe, expect, it } from 'vitest'
import { parse } from 'yaml'
import { ComposeError, type Conversion, convertCompose } from './convert.ts'

const folder = new URL('./fixtures/', import.meta.url)
const fixture = (name: string): Conversion =>
  convertCompose(readFileSync(new URL(name, folder), 'utf8'), '')
const textOf = ({ lines }: Conversion): string => lines.join('\n')
type Services = Record<string, Record<string, unknown>>
const servicesOf = (made: Conversion): Services => parse(textOf(made)).docker.services as Services
const notesOf = ({ notes }: Conversion): string[] => notes.map((n) => `${n.where}: ${n.reason}`)
const one = (service: string, folderName = ''): Conversion =>
  convertCompose(`services: { web: { ${service} } }`, folderName)
const web = (service: string): Record<string, unknown> => servicesOf(one(service)).web ?? {}

describe('every compose file of the fixtures', () => {
  it.each(readdirSync(folder))('%s becomes a valid file without secrets', (name) => {
    const made = fixture(name)
    expect(readServiceFile(`${textOf(made)}\n`).problems).toEqual([])
    expect(textOf(made)).not.toMatch(/s3cret|hunter|abc|NPM_TOKEN|PASSWORD: /)
    expect(made.notes.every(({ reason }) => reason.length > 5)).toBe(true)
  })
})

describe('a shop with five services', () => {
  const made = fixture('shop.yaml')

  it('keeps what runs, in order, and its own address', () => {
    expect([made.services, made.defaultService]).toEqual([
      ['web', 'admin-ui', 'worker', 'db', 'cache'],
      'web',
    ])
    expect(servicesOf(made)).toMatchObject({
      web: {
        build: { context: '.', target: 'runtime', args: { NODE_ENV: 'production' } },
        port: 3000,
        health: { path: '/up', interval: '5s', retries: 5 },
        env: { REDIS_URL: 'redis://cache:6379', LOG_LEVEL: 'info' },
        variables: ['DATABASE_URL', 'SECRET_KEY'],
        release: 'npm run migrate',
        depends_on: ['db', 'cache'],
      },
      worker: {
        command: ['node', 'worker.js'],
        memory: '512m',
        cpus: 0.5,
        stop_timeout: '90s',
        depends_on: ['db', 'cache'],
      },
      db: {
        image: 'postgres:18',
        port: 5432,
        public: false,
        health: { command: 'pg_isready -U app', start_period: '30s', retries: 20 },
        env: { POSTGRES_USER: 'app', POSTGRES_DB: 'app' },
        variables: ['POSTGRES_PASSWORD'],
        volumes: ['pg-data:/var/lib/postgresql/data'],
        shm_size: '128m',
      },
      cache: { command: ['redis-server', '--save', ''], port: 6379, public: false, variables: [] },
    })
    expect(servicesOf(made)['admin-ui']).toMatchObject({ port: 9000, public: false })
  })

  it('lists variables to set, and what it did not convert', () => {
    expect(made.variables).toEqual([
      { key: 'DATABASE_URL', services: ['web', 'worker'], reason: 'uses DB_PASSWORD' },
      { key: 'POSTGRES_PASSWORD', services: ['db'], reason: 'the compose file gives no value' },
      { key: 'SECRET_KEY', services: ['web', 'worker'], reason: 'looks like a secret' },
    ])
    const notes = notesOf(made).join('\n')
    expect(notes).toMatch(/^admin_ui: is named admin-ui; other services/m)
    expect(notes).toMatch(/^web\.build\.args\.NPM_TOKEN: looks like a secret/m)
    expect(notes).toMatch(/^admin_ui\.volumes: \.\/admin\/src:\/src is a folder of your machine/m)
    expect(notes).toMatch(/^admin_ui\.ports: 9001:9001\/udp is not one TCP port/m)
    expect(notes).toMatch(/^migrate: is now the release command of web/m)
  })

  it('replicas follow the schema', () => {
    const isKnown = 'replicas' in (servicesOf(made).worker ?? {})
    expect(isKnown).toBe(!notesOf(made).some((note) => note.startsWith('worker.deploy.replicas')))
  })
})

describe('a Django application', () => {
  const made = fixture('django.yaml')

  it('is converted key by key', () => {
    expect(servicesOf(made)).toMatchObject({
      web: {
        build: {
          context: 'app',
          dockerfile: 'docker/Dockerfile.web',
          args: { PYTHON_VERSION: '3.12' },
        },
        command: [
          'gunicorn',
          'app.wsgi',
          '--bind',
          '0.0.0.0:8000',
          '--access-logformat',
          '%(h)s "%(r)s"',
        ],
        user: '1000:1000',
        port: 8000,
        health: { path: '/health/', timeout: '1s' },
        env: { DJANGO_DEBUG: '0', ALLOWED: '*', PRICE: '5$' },
        volumes: ['media:/media:ro'],
        tmpfs: ['/cache:64m'],
        stop_signal: 'SIGINT',
      },
      db: {
        image: 'postgres:16-alpine',
        public: false,
        health: { command: 'pg_isready -U postgres', interval: '90s' },
        variables: ['POSTGRES_PASSWORD'],
      },
    })
    // its values come from files that are not read, so it gets all of them
    expect(servicesOf(made).web).not.toHaveProperty('variables')
    expect(made.services).toEqual(['web', 'db'])
  })

  it('lists the rest', () => {
    const notes = notesOf(made).join('\n')
    expect(notes).toMatch(/^web\.env_file: \.env is not read; berth vars set --from-file \.env/m)
    expect(notes).toMatch(/^web\.env_file: local\.env/m)
    expect(notes).toMatch(/^web\.build\.args\.GIT_SHA: gets its value from your shell/m)
    expect(notes).toMatch(/^web\.volumes: \/code\/node_modules has no name/m)
    expect(notes).toMatch(/^web\.secrets: values are given as variables/m)
    expect(notes).toMatch(/^web\.labels: routes are not read from labels/m)
    expect(notes).toMatch(/^web\.working_dir: set WORKDIR/m)
    expect(notes).toMatch(/^tools: is left out: compose starts it only with its profile/m)
    expect(notes).toMatch(/^volumes\.db-data: is external/m)
    expect(notes).not.toMatch(/cache_from/)
  })
})

describe('images alone', () => {
  const made = fixture('wordpress.yaml')

  it('two services with addresses: the first one is the default', () => {
    expect(servicesOf(made)).toMatchObject({
      wordpress: { port: 80, default: true, health: false, entrypoint: [], memory: '1536m' },
      phpmyadmin: { port: 80 },
      mysql: { port: 3306, public: false },
    })
    expect(made.defaultService).toBe('wordpress')
  })

  it('passwords are variables; different values of one key are told', () => {
    expect(made.variables.map(({ key }) => key)).toEqual([
      'MYSQL_ROOT_PASSWORD',
      'PMA_PASSWORD',
      'WORDPRESS_DB_PASSWORD',
    ])
    expect(notesOf(made)).toContain(
      'environment.WORDPRESS_DB_PASSWORD: wordpress, phpmyadmin had different values; a key has one value',
    )
    expect(notesOf(made).join('\n')).toMatch(/^wordpress\.ports: 443 is another port/m)
  })
})

describe('single keys', () => {
  it.each([
    ['["CMD", "curl", "-f", "http://localhost:3000/up"]', '/up'],
    ['"curl -fsS http://127.0.0.1:3000/ || exit 1"', '/'],
    ['["CMD", "curl", "-f", "-o", "/dev/null", "http://localhost:3000"]', '/'],
    ['["CMD", "wget", "-qO-", "http://localhost:3000/up"]', '/up'],
    ['"curl -f http://localhost:9090/up"', { path: '/up', port: 9090 }],
    // without -f an error page counts as healthy
    ['"curl http://localhost:3000/up"', { command: 'curl http://localhost:3000/up' }],
    ['"curl -f http://db:3000/up"', { command: 'curl -f http://db:3000/up' }],
    ['"curl -fk http://localhost:3000/"', { command: 'curl -fk http://localhost:3000/' }],
    [
      '"curl -f http://localhost:3000/ | grep ok"',
      { command: 'curl -f http://localhost:3000/ | grep ok' },
    ],
    ['["CMD", "redis-cli", "ping"]', { command: ['redis-cli', 'ping'] }],
    ['["NONE"]', false],
  ])('healthcheck %s', (test, health) => {
    const service = `image: a, ports: ["80:3000"], healthcheck: { test: ${test} }`
    expect(web(service).health).toEqual(health)
  })

  it.each([
    ['ports: [3000]', { port: 3000 }],
    ['ports: ["0.0.0.0:80:3000"]', { port: 3000 }],
    ['ports: ["${PORT:-8080}:3000/tcp"]', { port: 3000 }],
    ['ports: ["[::1]:80:3000"]', { port: 3000, public: false }],
    ['expose: ["3000"]', { port: 3000, public: false }],
    ['ports: ["3000-3005:3000-3005"]', {}],
    ['stop_grace_period: 90s', { stop_timeout: '90s' }],
    ['stop_signal: SIGKILL', {}],
    ['user: root', { user: 'root' }],
    ['tmpfs: [/run]', {}],
    ['volumes: ["data:/proc/x"]', {}],
    ['command: ["sh", "-c", "echo $$HOME"]', { command: ['sh', '-c', 'echo $HOME'] }],
    [
      'command: "serve --port ${PORT} \'a b\'"',
      { command: 'serve --port "${PORT}" \'a b\'', variables: ['PORT'] },
    ],
    [
      'command: redis-server --requirepass hunter2 --save ""',
      {
        command: `redis-server --requirepass "$WEB_REQUIREPASS" --save ''`,
        variables: ['WEB_REQUIREPASS'],
      },
    ],
    [
      'healthcheck: { test: "pg_isready -U $${POSTGRES_USER} -d ${DB:-app}" }',
      { health: { command: 'pg_isready -U ${POSTGRES_USER} -d app' } },
    ],
    [
      'healthcheck: { test: [CMD, mysqladmin, ping, --password=hunter2] }',
      {
        health: { command: 'mysqladmin ping --password="$WEB_PASSWORD"' },
        variables: ['WEB_PASSWORD'],
      },
    ],
    [
      'healthcheck: { test: "ask ${HOST}" }',
      { health: { command: 'ask ${HOST}' }, variables: ['HOST'] },
    ],
    ['build: { context: app }', { build: 'app' }],
  ])('%s', (key, expected) => {
    const { image, build, ...rest } = web(`image: a, ${key}`)
    expect({ ...rest, ...(build !== undefined && { build }) }).toEqual(expected)
    expect([image, build]).toContain(build === undefined ? 'a' : 'app')
  })

  it('a value that .service.yml refuses is left out and listed with its message', () => {
    expect(notesOf(one('image: a, stop_signal: SIGKILL')).join()).toMatch(
      /stop_signal must be one of/,
    )
    expect(notesOf(one('image: a, volumes: ["data:/proc/x"]')).join()).toMatch(/cannot be mounted/)
  })

  it('a compose file in a folder builds from that folder', () => {
    expect(servicesOf(one('build: ../app', 'deploy')).web).toEqual({ build: 'app' })
    expect(servicesOf(one('build: .', 'deploy')).web).toEqual({ build: 'deploy' })
    expect(() => one('build: ../../app', 'deploy')).toThrow(ComposeError)
  })

  it('a tag without a default is told; a missing name leaves the service out', () => {
    const made = one('image: "app:${TAG}"')
    expect(servicesOf(made).web).toEqual({ image: 'app' })
    expect(notesOf(made).join()).toMatch(/web\.image: has the tag \$\{TAG\}/)
    expect(() => one('image: "${IMAGE}"')).toThrow(/none of its services/)
  })

  it('a service that ends and runs another program is left out', () => {
    const made = convertCompose(
      `services:
  web: { build: ., depends_on: { seed: { condition: service_completed_successfully } } }
  seed: { image: seeder, command: run }
  job: { build: ., depends_on: { web: { condition: service_healthy } } }`,
      '',
    )
    expect(servicesOf(made)).toEqual({
      web: { build: '.' },
      job: { build: '.', depends_on: ['web'] },
    })
    expect(notesOf(made)[0]).toMatch(/^seed: is left out: .* Run its command with 'release' of web/)
  })
})

describe('a file that is no compose file', () => {
  it.each([
    ['a: [', /.+/],
    ['a: 1', /no 'services'/],
    ['services: {}', /none of its services/],
    ['[]', /no 'services'/],
    [`a: &a [x]\nb: &b [${'*a,'.repeat(60)}]\nservices: { web: [${'*b,'.repeat(60)}] }`, /aliases/],
  ])('%j', (text, message) => {
    expect(() => convertCompose(text, '')).toThrow(ComposeError)
    expect(() => convertCompose(text, '')).toThrow(message)
  })
})
