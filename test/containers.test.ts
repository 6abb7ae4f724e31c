// The files for containers name settings, ports, paths and accounts of the program. This compares them with it; the
// schemas of Kubernetes are not here, and no cluster.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { MiB } from '@berth/shared/units'
import { describe, expect, test } from 'vitest'
import { readConfig } from '../control-plane/src/config.ts'
import { WEBHOOKS } from '../control-plane/src/limits/forges.ts'
import { SETTINGS } from '../control-plane/src/settings/table.ts'

const root = fileURLToPath(new URL('..', import.meta.url))
interface Yaml {
  parseAllDocuments(text: string, options: { version: '1.1' }): { toJS(): unknown }[]
}
const yaml: Yaml = createRequire(join(root, 'shared/package.json'))('yaml')

const files = join(root, 'scripts/release/files')
const read = (name: string): string => readFileSync(join(files, name), 'utf8')
const readPage = (name: string): string => readFileSync(join(root, 'docs/operations', name), 'utf8')
/** YAML 1.1, as kubectl and compose read it. */
const parse = <T>(name: string): T[] =>
  yaml.parseAllDocuments(read(name), { version: '1.1' }).map((one) => one.toJS() as T)

const variables = new Set<string>(Object.values(SETTINGS).map(({ variable }) => variable))
const { port: http, agentPort } = readConfig({ BERTH_CONFIG_FILE: '' })

interface Probe {
  httpGet: { path: string; port: string }
}
interface Container {
  image: string
  env: { name: string; value?: string }[]
  ports: { name: string; containerPort: number }[]
  volumeMounts: { name: string; mountPath: string; readOnly?: boolean }[]
  lifecycle: { preStop: { exec: { command: string[] } } }
  securityContext: unknown
  startupProbe: Probe
  livenessProbe: Probe
  readinessProbe: Probe
}
interface Kubernetes {
  kind: string
  metadata: { name: string; namespace?: string; annotations?: Record<string, string> }
  data?: Record<string, string>
  spec: {
    selector: Record<string, unknown>
    replicas: number
    maxUnavailable: number
    ports: { targetPort: string }[]
    template: {
      metadata: { labels: Record<string, string> }
      spec: {
        containers: [Container]
        volumes: { name: string; secret?: { defaultMode: number; items: { path: string }[] } }[]
        terminationGracePeriodSeconds: number
        securityContext: { runAsUser: number; fsGroup: number; runAsNonRoot: boolean }
      }
    }
  }
}

describe('Kubernetes', () => {
  const all = parse<Kubernetes>('kubernetes/berth.yaml')
  const find = (kind: string, name = 'berth'): Kubernetes => {
    const found = all.find((one) => one.kind === kind && one.metadata.name === name)
    if (!found) throw new Error(`no ${kind} ${name}`)
    return found
  }
  const pod = find('Deployment').spec.template
  const [container] = pod.spec.containers

  test('names settings that exist', () => {
    const named = [
      ...Object.keys(find('ConfigMap').data ?? {}),
      ...container.env.map(({ name }) => name),
    ]
    expect(named.length).toBeGreaterThan(4)
    expect(named.filter((name) => !variables.has(name))).toEqual([])
  })

  test('names the ports where it listens, and probes that it answers', () => {
    const ports = Object.fromEntries(
      container.ports.map(({ name, containerPort }) => [name, containerPort]),
    )
    expect(ports).toMatchObject({ people: http, agents: agentPort })
    const services = all.filter(({ kind }) => kind === 'Service')
    const targets = services.flatMap(({ spec }) => spec.ports.map(({ targetPort }) => targetPort))
    expect(targets.toSorted()).toEqual(['agents', 'people'])
    const routes = readFileSync(
      join(root, 'control-plane/src/gateways/rest/installation/monitoring.ts'),
      'utf8',
    )
    for (const probe of ['startupProbe', 'livenessProbe', 'readinessProbe'] as const) {
      const { path, port } = container[probe].httpGet
      expect([routes.includes(`'${path}'`), port], probe).toEqual([true, 'people'])
    }
    expect(container.readinessProbe.httpGet.path).toBe('/health/ready')
    expect(container.livenessProbe.httpGet.path).toBe('/health/live')
  })

  test('runs as the account of the image, which may read the key and write into its folders', () => {
    const uid = Number(/--uid (\d+)/.exec(read('docker/Dockerfile'))?.[1])
    expect(read('docker/Dockerfile')).toContain(`USER ${uid}:${uid}`)
    expect(pod.spec.securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: uid,
      runAsGroup: uid,
      fsGroup: uid,
    })
    expect(container.securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    const secret = pod.spec.volumes.find(({ name }) => name === 'key')?.secret
    expect(secret?.defaultMode).toBe(0o440)
    const mounts = Object.fromEntries(container.volumeMounts.map((one) => [one.name, one]))
    const key = container.env.find(({ name }) => name === 'BERTH_KEK_FILE')?.value
    expect(key).toBe(`${mounts.key?.mountPath}/${secret?.items[0]?.path}`)
    expect(read('docker/Dockerfile')).toContain(`BERTH_DATA_DIR=${mounts.data?.mountPath}`)
  })

  test('commands are on the path of the image, as the pages type them', () => {
    const dockerfile = read('docker/Dockerfile')
    const [, program = ''] = /^CMD \["(\S+)", "serve"\]$/m.exec(dockerfile) ?? []
    expect(dockerfile).toContain(`ln -s ${program} /usr/bin/berth-server\n`)
    expect(read('kubernetes/README.md')).toContain('deploy/berth -- berth-server doctor')
    expect(read('docker/README.md')).toContain('exec control-plane berth-server doctor')
  })

  test('replaces pods in turn, with time for the hand-over', () => {
    const { selector, replicas } = find('Deployment').spec
    expect(selector).toEqual({ matchLabels: pod.metadata.labels })
    expect(find('PodDisruptionBudget').spec).toMatchObject({ selector, maxUnavailable: 1 })
    expect(replicas).toBeGreaterThan(1)
    for (const { kind, spec } of all) {
      if (kind === 'Service') expect(spec.selector).toEqual(pod.metadata.labels)
    }
    const stop = Number(/TimeoutStopSec=(\d+)/.exec(read('berth-server.service'))?.[1])
    const pause = Number(container.lifecycle.preStop.exec.command[1])
    expect(pod.spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(stop + pause)
  })

  test('its ingress and the documented nginx pass on the largest webhook', () => {
    const size =
      find('Ingress').metadata.annotations?.['nginx.ingress.kubernetes.io/proxy-body-size']
    const [, documented] = /client_max_body_size (\w+);/.exec(readPage('tls.md')) ?? []
    const largest = `${WEBHOOKS.bodyBytes / MiB}m` // in MiB, as nginx counts
    expect([size, documented]).toEqual([largest, largest])
  })

  test('keeps everything in its namespace', () => {
    const outside = all.filter(({ kind }) => kind !== 'Namespace')
    expect(new Set(outside.map(({ metadata }) => metadata.namespace))).toEqual(new Set(['berth']))
  })
})

/** Containers are lines of a file. */
const FAKE_DOCKER = `#!/bin/sh
set -eu
cd "$STATE"
case "$*" in
  'compose ps -q control-plane') cat ids ;;
  'compose up -d --no-deps --no-recreate --scale control-plane='*)
    wanted=\${7#control-plane=}
    echo "up $wanted" >>log
    n=$(cat last 2>/dev/null || echo 2)
    while [ "$(wc -l <ids)" -lt "$wanted" ]; do n=$((n + 1)); echo "new$n" >>ids; done
    echo "$n" >last ;;
  inspect*) echo "$HEALTH" ;;
  logs*) ;;
  stop*) echo "$*" >>log ;;
  rm*) echo "$*" >>log; grep -vxF "$3" ids >kept || true; mv kept ids ;;
  *) echo "unknown: $*" >>log; exit 1 ;;
esac
`

interface Compose {
  services: Record<
    string,
    {
      image: string
      environment?: Record<string, string>
      ports?: string[]
      volumes?: string[]
      stop_grace_period?: string
      healthcheck?: { test: string[] }
    }
  >
}

describe('compose', () => {
  const [compose] = parse<Compose>('docker/compose.yaml')
  const services = compose?.services ?? {}
  const own = services['control-plane']
  const balancer = read('docker/haproxy.cfg')

  test('names settings that exist', () => {
    const named = Object.keys(own?.environment ?? {})
    expect(named.length).toBeGreaterThan(4)
    expect(named.filter((name) => !variables.has(name))).toEqual([])
  })

  test('a control plane has no port and no folder that only one of them can have', () => {
    expect(own?.ports).toBeUndefined()
    expect(own?.volumes).toEqual(['data:/keys:ro'])
    expect(own?.environment?.BERTH_KEK_FILE).toBe('/keys/kek')
    expect(services.key).toMatchObject({ image: own?.image, volumes: ['data:/keys'] })
  })

  test('the balancer leads to the ports of control planes that are ready', () => {
    const targets = [...balancer.matchAll(/server-template replica \d+ ([\w-]+):(\d+)/g)]
    expect(targets.map(([, name, port]) => [name, Number(port)])).toEqual([
      ['control-plane', http],
      ['control-plane', agentPort],
    ])
    expect(balancer.match(/option httpchk GET (\S+)/g)).toEqual([
      'option httpchk GET /health/ready',
      'option httpchk GET /health/ready',
    ])
    expect(balancer).toContain(`check port ${http} `)
    expect(own?.healthcheck?.test.join(' ')).toContain(`http://127.0.0.1:${http}/health/ready`)
    expect(balancer).toContain(`bind :${agentPort}`)
    expect(services.balancer?.ports).toEqual([`${agentPort}:${agentPort}`])
    expect(read('docker/Caddyfile')).toContain(`reverse_proxy balancer:${http}`)
  })

  test('a balancer without a control plane answers as Berth does, also the documented one', () => {
    const [answer = ''] = /http-error status 503 .* hdr retry-after \d+/.exec(balancer) ?? []
    const [, body = '{}'] = /string '(.*)'/.exec(answer) ?? []
    expect(JSON.parse(body)).toMatchObject({ status: 503, code: 'unavailable' })
    expect(readPage('several.md')).toContain(answer)
  })

  test('replace.sh starts a new one before it stops an old one, and stops nothing if that one is not ready', () => {
    const run = (health: string): { status: number | null; log: string[]; left: string[] } => {
      const folder = mkdtempSync(join(tmpdir(), 'berth-replace-'))
      try {
        const state = { ids: join(folder, 'ids'), log: join(folder, 'log') }
        writeFileSync(state.ids, 'old1\nold2\n')
        writeFileSync(join(folder, 'docker'), FAKE_DOCKER, { mode: 0o755 })
        const env = { PATH: `${folder}:${process.env.PATH}`, STATE: folder, HEALTH: health }
        const { status } = spawnSync('sh', [join(files, 'docker/replace.sh')], {
          env: { ...env, BERTH_REPLACE_WAIT: '0' },
        })
        const lines = (file: string): string[] => readFileSync(file, 'utf8').trim().split('\n')
        return { status, log: lines(state.log), left: lines(state.ids) }
      } finally {
        rmSync(folder, { recursive: true })
      }
    }
    expect(run('healthy')).toEqual({
      status: 0,
      log: ['up 3', 'stop old1', 'rm -v old1', 'up 3', 'stop old2', 'rm -v old2'],
      left: ['new3', 'new4'],
    })
    expect(run('starting')).toEqual({
      status: 1,
      log: ['up 3', 'rm -fv new3'],
      left: ['old1', 'old2'],
    })
  })

  test('every file is in the release', () => {
    const source = readFileSync(join(root, 'scripts/release/packages.ts'), 'utf8')
    for (const kind of ['docker', 'kubernetes']) {
      const missing = readdirSync(join(files, kind)).filter((one) => !source.includes(`'${one}'`))
      expect(missing).toEqual([])
    }
  })
})
