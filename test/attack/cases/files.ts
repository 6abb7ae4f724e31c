// The repository's service file, output that contains secrets, artifacts, static files and images.
import { execFileSync } from 'node:child_process'
import type { Artifact, Task } from '@berth/shared/api'
import { callEngine } from '../../../scripts/docker-engine.ts'
import { NODE_IMAGE } from '../../fixtures/docker/images.ts'
import { type Case, found, must } from '../case.ts'
import { type AttackedInstallation, CANARY, dockerFiles, type Target } from '../target.ts'
import { containerAddress } from './ports.ts'

const targets = new WeakMap<AttackedInstallation, Map<string, Promise<Target>>>()

/** A separate victim for attacks that may break it; created once. */
function lazily(
  w: AttackedInstallation,
  name: string,
  make: () => Promise<Target>,
): Promise<Target> {
  const known = targets.get(w) ?? new Map<string, Promise<Target>>()
  targets.set(w, known)
  const target = known.get(name) ?? make()
  known.set(name, target)
  return target
}

const anvil = (w: AttackedInstallation): Promise<Target> =>
  lazily(w, 'anvil', () => w.deployed('anvil', 'docker', dockerFiles('anvil')))

/** A commit that must fail before any of its code runs, while the old version keeps serving. */
const rejected = (
  title: string,
  files: (w: AttackedInstallation) => Record<string, string> | Promise<Record<string, string>>,
  sign: RegExp,
  isImportant = false,
): Case => ({
  subject: 'files',
  title,
  isImportant,
  async control(w) {
    const target = await anvil(w)
    w.fixture.repository('anvil', dockerFiles('anvil'))
    await w.redeploy(target)
    must(
      (await w.visit(target.host())).text.includes('implant anvil'),
      'the honest file does not work',
    )
  },
  async attack(w) {
    const target = await anvil(w)
    const said = await w.attempt(target, await files(w))
    if (!said.startsWith('failed')) return `deployed: ${said.slice(0, 200)}`
    const serves = (await w.visit(target.host())).text.includes('implant anvil')
    return found(said, sign) ?? (serves ? undefined : 'the old version does not serve any more')
  },
})

const service = (text: string): Record<string, string> => ({ '.service.yml': text })
/** Matches nothing: the verdict alone counts. */
const NEVER = /(?!)/

const bomb = `a: &a [x, x, x, x, x, x, x, x, x]\n${'bcdefghi'
  .split('')
  .map((c, n) => `${c}: &${c} [${Array(9).fill(`*${'abcdefgh'[n]}`).join(', ')}]`)
  .join('\n')}\n`

const imageOf = (w: AttackedInstallation, target: Target): string => {
  const filter = `label=dev.berth.environment=${target.environment.id}`
  const argv = [
    '-H',
    `unix://${w.engine.socket}`,
    'ps',
    '--filter',
    filter,
    '--format',
    '{{.Image}}',
  ]
  return execFileSync('docker', argv, { encoding: 'utf8' }).trim().split('\n')[0] ?? ''
}

/** Names that the neighbour's image has or might have. */
async function imageNames(w: AttackedInstallation): Promise<string[]> {
  const prefix = w.fixture.accountPrefix.replace(/-e$/, '')
  const { id } = w.vault.environment
  const tasks = JSON.parse(
    (await w.api(w.fixture.token, 'GET', `/api/environments/${id}/tasks`)).text,
  ) as Task[]
  const guessed = tasks.flatMap((task) => [
    `${prefix}/e${id}-web:${task.id}`,
    `berth/e${id}-web:${task.id}`,
    `docker.io/${prefix}/e${id}-web:${task.id}`,
  ])
  return [...new Set([imageOf(w, w.vault), ...guessed])].filter((name) => name !== '')
}

const uses = (title: string, file: (image: string) => Record<string, string>): Case => ({
  subject: 'images',
  title,
  isImportant: true,
  async control(w) {
    const image = imageOf(w, w.vault)
    const { status } = await callEngine(
      w.engine.socket,
      'GET',
      `/images/${encodeURIComponent(image)}/json`,
    )
    must(status === 200, `the neighbour’s image ${image} is not there`)
    await anvil(w)
  },
  async attack(w) {
    const target = await anvil(w)
    for (const image of await imageNames(w)) {
      const said = await w.attempt(target, file(image))
      if (!said.startsWith('failed')) return `${image} was used`
      const got = found(said, /implant vault|ENV NAME=vault/)
      if (got) return got
    }
    return undefined
  },
})

/** A build that reports what it could reach; the attacker knows the address. */
const reaches = (
  title: string,
  address: (w: AttackedInstallation) => Promise<string>,
  sign: RegExp,
): Case => ({
  subject: 'images',
  title,
  isImportant: true,
  async control(w) {
    const said = await w.attempt(await anvil(w), built(`echo "a build ran" $((40 + 2))`))
    must(said.includes('a build ran 42'), said.slice(0, 300))
  },
  async attack(w) {
    const url = await address(w)
    const said = await w.attempt(await anvil(w), built(`wget -T 3 -q -O- http://${url}/ || true`))
    return found(said.slice(said.search(sign) - 20), sign)
  },
})

const built = (command: string): Record<string, string> => ({
  ...dockerFiles('anvil'),
  Dockerfile: `FROM ${NODE_IMAGE}\nRUN ${command} # ${Date.now()}\nCOPY implant.cjs /app/\nENV NAME=anvil\nCMD ["node", "/app/implant.cjs"]\n`,
})

async function collect(
  w: AttackedInstallation,
  prepare: string,
): Promise<{ names: string[]; bytes: string }> {
  await w.implant(
    w.mallory,
    `cd "$(dirname "$BERTH_SHARED_DIR")/current" && rm -rf out && mkdir out && cd out && ${prepare}`,
  )
  const path = `/api/environments/${w.mallory.environment.id}/actions/collect/tasks`
  const { id } = await w.fixture.post<Task>(path, {})
  await w.fixture.finished(id)
  const listed = JSON.parse(
    (await w.api(w.fixture.token, 'GET', `/api/tasks/${id}/artifacts`)).text,
  ) as Artifact[]
  let bytes = ''
  for (const one of listed)
    bytes += (await w.api(w.fixture.token, 'GET', `/api/artifacts/${one.id}/content`)).text
  return { names: listed.map(({ path: name }) => name), bytes }
}

const collected = (
  title: string,
  prepare: (w: AttackedInstallation) => string,
  sign: RegExp,
): Case => ({
  subject: 'files',
  title,
  async control(w) {
    const { names, bytes } = await collect(w, 'echo honest >file')
    must(bytes.includes('honest'), `an honest file is not offered: ${names} ${bytes.slice(0, 200)}`)
  },
  async attack(w) {
    return found((await collect(w, prepare(w))).bytes, sign)
  },
})

const printed = (title: string, command: string, sign: (value: string) => string): Case => ({
  subject: 'masking',
  title,
  isImportant: title.startsWith('a value'),
  async control(w) {
    const target = await printer(w)
    const said = await w.attempt(
      target,
      service('manual: { deploy: [\'test -n "$SECRET" && echo it is there\'] }\n'),
    )
    must(said.includes('it is there'), said.slice(0, 300))
  },
  async attack(w) {
    const said = await w.attempt(
      await printer(w),
      service(`manual: { deploy: [${JSON.stringify(command)}] }\n`),
    )
    must(said.startsWith('succeeded'), said.slice(0, 300))
    return found(said, sign(CANARY))
  },
})

const printer = (w: AttackedInstallation): Promise<Target> =>
  lazily(w, 'printer', () =>
    w.deployed('printer', 'manual', service("manual: { deploy: ['true'] }\n"), {
      variables: { SECRET: CANARY },
    }),
  )

export const FILES: Case[] = [
  rejected(
    'a file of aliases within aliases is refused',
    () => service(`${bomb}docker: { services: { web: { image: x } } }\n`),
    NEVER,
    true,
  ),
  rejected(
    'a file nested beyond measure is refused',
    () => service(`docker: ${'{ a: '.repeat(2_000)}1${' }'.repeat(2_000)}\n`),
    NEVER,
  ),
  rejected(
    'a file larger than allowed is refused',
    () => service(`# ${'x'.repeat(200_000)}\ndocker: { services: { web: { build: . } } }\n`),
    NEVER,
  ),
  rejected(
    'a volume over /proc is refused',
    () =>
      service(
        'docker: { volumes: [v], services: { web: { build: ., port: 8080, volumes: ["v:/proc"] } } }\n',
      ),
    NEVER,
    true,
  ),
  rejected(
    'a folder of the server as a volume is refused',
    () =>
      service('docker: { services: { web: { build: ., port: 8080, volumes: ["/etc:/host"] } } }\n'),
    /root:x/,
  ),
  rejected(
    'a build from an address is refused',
    () =>
      service(
        'docker: { services: { web: { build: "https://git.example.com/x.git", port: 8080 } } }\n',
      ),
    NEVER,
    true,
  ),
  rejected(
    'an image that is an option is refused',
    () => service('docker: { services: { web: { image: "--privileged", port: 8080 } } }\n'),
    NEVER,
    true,
  ),
  ...[
    'privileged: true',
    'network_mode: host',
    'pid: host',
    'cap_add: [SYS_ADMIN]',
    'devices: ["/dev/sda"]',
    'volumes_from: [x]',
    'security_opt: [seccomp=unconfined]',
    'cgroup_parent: /',
  ].map((option) =>
    rejected(
      `the option ${option.split(':')[0]} does not exist`,
      () => service(`docker: { services: { web: { build: ., port: 8080, ${option} } } }\n`),
      NEVER,
    ),
  ),
  rejected(
    'a host of another environment is not taken',
    (w) =>
      service(
        `docker: { services: { web: { build: ., port: 8080, domain: ${w.victim.host().split(':')[0]} } } }\n`,
      ),
    NEVER,
    true,
  ),
  rejected(
    'a Dockerfile outside the checkout is refused',
    () =>
      service(
        'docker: { services: { web: { build: { context: ., dockerfile: ../../../etc/passwd }, port: 8080 } } }\n',
      ),
    /root:x/,
  ),
  rejected(
    'more memory than the ceiling is refused',
    () => service('docker: { services: { web: { build: ., port: 8080, memory: 4096g } } }\n'),
    NEVER,
    true,
  ),
  uses('a neighbour’s image is no base of a build', (image) => ({
    ...dockerFiles('anvil'),
    Dockerfile: `FROM ${image}\nRUN cat /app/implant.cjs && echo "ENV NAME=$NAME"\nCMD ["node", "/app/implant.cjs"]\n`,
  })),
  uses('a neighbour’s image is not run by name', (image) =>
    service(`docker: { services: { web: { image: "${image}", port: 8080 } } }\n`),
  ),
  uses('nothing is copied out of a neighbour’s image', (image) => ({
    ...dockerFiles('anvil'),
    Dockerfile: `FROM ${NODE_IMAGE}\nCOPY --from=${image} /app /stolen\nCMD ["node", "/stolen/implant.cjs"]\n`,
  })),
  reaches(
    'a build cannot open another environment’s container',
    async (w) => `${containerAddress(w, 'vault').split(' ')[0]}:8080`,
    /implant vault/,
  ),
  reaches(
    'a build cannot open a manual service’s port',
    async (w) => `${w.engine.gateway}:${await w.portOf(w.victim, 'web')}`,
    /implant victim/,
  ),
  printed('a value printed by a command is masked', 'echo "$SECRET"', (value) => value),
  printed('a value in base64 is masked', 'printf %s "$SECRET" | base64 -w0', (value) =>
    Buffer.from(value).toString('base64').slice(0, 24),
  ),
  printed(
    'a value in hexadecimal is masked',
    'printf %s "$SECRET" | od -An -tx1 | tr -d " \\n"',
    (value) => Buffer.from(value).toString('hex').slice(0, 40),
  ),
  printed(
    'a value written in two pieces is masked',
    'printf %s "$SECRET" | cut -c1-20 | tr -d "\\n"; sleep 0.3; printf %s "$SECRET" | cut -c21-',
    (value) => value,
  ),
  collected(
    'a link among the files shows nothing of the server',
    () => 'ln -s /etc/passwd link && ln -s /etc folder',
    /root:x:0/,
  ),
  collected(
    'a hard link among the files shows nothing of others',
    () => 'ln /etc/passwd hard 2>/dev/null || echo none >hard',
    /root:x:0/,
  ),
  collected('a pipe among the files is left out', () => 'mkfifo pipe && echo ok >file', NEVER),
  {
    subject: 'files',
    title: 'static files show no link and no hidden file',
    async control(w) {
      const { status, text } = await w.visit(w.mallory.host('site'), '/page.html')
      must(status === 200 && text.includes('page of mallory'), `${status} ${text}`)
    },
    async attack(w) {
      w.fixture.repository('mallory', { extra: 'links' })
      const files = {
        '.service.yml': w
          .manualFiles(w.fixture.node(), 'mallory')
          ['.service.yml'].replace(
            'echo hidden',
            'ln -s /etc/passwd public/passwd; ln -s / public/root; echo hidden',
          ),
      }
      const said = await w.attempt(w.mallory, files)
      let got: string | undefined
      for (const path of [
        '/passwd',
        '/root/etc/passwd',
        '/.env',
        '/..%2f..%2f..%2f..%2fetc%2fpasswd',
        '/%2e%2e/%2e%2e/etc/passwd',
      ]) {
        const { text } = await w.visit(w.mallory.host('site'), path)
        got ??= found(text, /root:x:0|hidden/)
      }
      if (said.startsWith('succeeded'))
        await w.attempt(w.mallory, w.manualFiles(w.fixture.node(), 'mallory'))
      return got
    },
  },
]
