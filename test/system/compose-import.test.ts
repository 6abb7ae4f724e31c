// A compose file of five services, converted by the client and deployed without an edit: two web services with addresses,
// a worker, Redis, and PostgreSQL with a health check and a volume. Busybox stands in for the programs.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { AttemptState } from '@berth/shared/wire'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { berth, nowhere, temporaryFolder } from '../../cli/src/testing/berth.ts'
import { callEngine } from '../../scripts/docker-engine.ts'
import { DockerHost } from '../fixtures/docker/server.ts'
import { dockerEngine, missing } from '../fixtures/platform/components.ts'
import { isRoot } from '../fixtures/server/server.ts'

const HOST = 'main.shop.example.com'

const COMPOSE = `x-api: &api
  build: { context: api }
  environment: &settings
    DATABASE_URL: postgres://app:\${DB_PASSWORD}@db:5432/app
    QUEUE: redis://redis:6379
services:
  web:
    build: ./web
    ports: ["8080:3000"]
    depends_on: [api]
  api:
    <<: *api
    ports: ["9000:9000"]
    depends_on:
      db: { condition: service_healthy }
      redis: { condition: service_started }
      migrate: { condition: service_completed_successfully }
    healthcheck:
      test: ["CMD", "wget", "-q", "--spider", "http://localhost:9000/"]
      interval: 1s
  migrate:
    <<: *api
    command: wget -q -O - http://db:5432/ready
  worker:
    <<: *api
    command: ["sh", "-c", "echo working on $$QUEUE; exec sleep 1000"]
    depends_on: [redis, migrate]
    stop_grace_period: 1s
  redis:
    image: berth-test/redis:7
    command: httpd -f -p 6379
  db:
    image: berth-test/postgres:18
    command: sh -c "test -n \\"$$POSTGRES_PASSWORD\\" && sleep 3 && echo ready > /data/ready && exec httpd -f -p 5432 -h /data"
    environment: { POSTGRES_USER: app, POSTGRES_PASSWORD: local }
    ports: ["5432:5432"]
    volumes: ["db-data:/data"]
    healthcheck: { test: "test -e /data/ready", interval: 1s, retries: 30, start_period: 1m }
volumes:
  db-data:
`

const site = (text: string, port: number): string =>
  `FROM berth-test/busybox\nRUN mkdir /www && echo ${text} > /www/index.html\nCMD ["httpd", "-f", "-p", "${port}", "-h", "/www"]\n`

const FILES = {
  'compose.yaml': COMPOSE,
  'web/Dockerfile': site('shop', 3000),
  'api/Dockerfile': site('orders', 9000),
}

/** What a user does: the files, then one command. */
async function convert(): Promise<{ file: string; said: string }> {
  const cwd = temporaryFolder()
  for (const [path, content] of Object.entries(FILES)) {
    mkdirSync(dirname(join(cwd, path)), { recursive: true })
    writeFileSync(join(cwd, path), content)
  }
  const env = { BERTH_CONFIG_DIR: nowhere() }
  const made = await berth(['config', 'init', '--from-compose', '--json'], { cwd, env })
  expect(made.code, made.stderr).toBe(0)
  const checked = await berth(['config', 'validate'], { cwd, env })
  expect([checked.code, checked.stdout]).toEqual([0, '✓ .service.yml is valid\n'])
  const shown = await berth(['config', 'validate', '--json'], { cwd, env })
  expect(JSON.parse(shown.stdout)).toEqual([])
  return { file: readFileSync(join(cwd, '.service.yml'), 'utf8'), said: made.stdout }
}

describe.skipIf(!dockerEngine() || missing('caddy') || !isRoot)('a converted compose file', () => {
  let host: DockerHost

  beforeAll(async () => {
    host = await DockerHost.open()
    const { socket } = dockerEngine() ?? { socket: '' }
    for (const name of ['redis&tag=7', 'postgres&tag=18']) {
      const path = `/images/berth-test/busybox/tag?repo=berth-test/${name}`
      expect((await callEngine(socket, 'POST', path)).status).toBe(201)
    }
  })
  afterAll(() => host.close())

  it('deploys as it is, and leaves nothing when it is removed', { timeout: 300_000 }, async () => {
    const { file, said } = await convert()
    expect(file).not.toContain('local')
    const { variables } = JSON.parse(said) as { variables: { key: string }[] }
    const keys = variables.map(({ key }) => key)
    expect(keys).toEqual(['DATABASE_URL', 'POSTGRES_PASSWORD'])
    const values = Object.fromEntries(keys.map((key) => [key, `value of ${key}`]))
    const repository = host.repository()
    repository.commit({ ...FILES, '.service.yml': file })
    const grantedHosts = [`api-${HOST}`]
    const request = { environmentId: 91, host: HOST, grantedHosts, variables: values }
    const deployment = await host.run(repository, request)
    const { state } = await deployment.verdict()
    const log = deployment.log()
    expect(state, log).toBe(AttemptState.SUCCEEDED)
    expect(await host.get(HOST)).toMatchObject({ status: 200, text: 'shop\n' })
    expect(await host.get(`api-${HOST}`)).toMatchObject({ status: 200, text: 'orders\n' })
    for (const name of ['db', 'redis', 'worker']) {
      expect((await host.get(`${name}-${HOST}`)).status).toBe(404)
    }
    // the release command, which was the service migrate, asked the database when that was healthy
    expect(log).toMatch(/db is healthy\.[\s\S]*ready\n[\s\S]*api is healthy/)
    const running = (await host.containers(91)).map(
      ({ labels, state: one }) => `${labels['dev.berth.service']} ${one}`,
    )
    expect(running.toSorted()).toEqual(
      ['api', 'db', 'redis', 'web', 'worker'].map((name) => `${name} running`),
    )
    const removal = await host.run(repository, { environmentId: 91, destroy: true })
    expect((await removal.verdict()).state, removal.log()).toBe(AttemptState.SUCCEEDED)
    expect(await host.objects(91)).toEqual([])
  })
})
