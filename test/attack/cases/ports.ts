// The loopback port of a manual service, networks of containers, and addresses that serve a machine's credentials.
import { execFileSync, spawn } from 'node:child_process'
import { type Case, found, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

const METADATA = ['169.254.169.254', '169.254.170.2', 'fd00:ec2::254'] as const

const CONNECT = (host: string, port: number): string =>
  `const s = require('net').connect(${port}, '${host}'); s.setTimeout(3000, () => { console.log('timeout'); process.exit() })
   s.on('connect', () => s.write('GET / HTTP/1.0\\r\\nHost: x\\r\\n\\r\\n')); s.on('data', (d) => { console.log('got ' + d); process.exit() }); s.on('error', (e) => console.log(e.code)); s.on('close', () => console.log('closed'))`

const from = (w: AttackedInstallation, where: 'mallory' | 'box', script: string) =>
  w.implant(
    w[where],
    `${where === 'box' ? 'node' : w.fixture.node()} -e '${script.replaceAll("'", `'"'"'`)}'`,
  )

async function guardedAnswers(w: AttackedInstallation): Promise<void> {
  const without = await w.visit(w.victim.host())
  const { status, text } = await w.visit(w.victim.host(), '/', w.friend())
  must(
    without.status === 401 && status === 200,
    `${without.status} without, ${status} ${text} with the password`,
  )
}

/** A listener of the machine itself, like those of its own services. */
async function withListener<T>(address: string, work: (port: number) => Promise<T>): Promise<T> {
  const script = `require('http').createServer((q, r) => r.end('crown jewels')).listen(0, '${address}', function () { console.log(this.address().port) })`
  const child = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await new Promise<number>((resolve) =>
    child.stdout.once('data', (d) => resolve(Number(String(d)))),
  )
  try {
    return await work(port)
  } finally {
    child.kill()
  }
}

async function withAddress<T>(address: string, work: () => Promise<T>): Promise<T> {
  const bits = address.includes(':') ? '128' : '32'
  execFileSync('ip', [
    'addr',
    'add',
    `${address}/${bits}`,
    'dev',
    'lo',
    ...(address.includes(':') ? ['nodad'] : []),
  ])
  try {
    return await work()
  } finally {
    execFileSync('ip', ['addr', 'del', `${address}/${bits}`, 'dev', 'lo'])
  }
}

/** Its address and the gateway of its network. */
export const containerAddress = (w: AttackedInstallation, target: 'box' | 'vault'): string => {
  const argv = [
    '-H',
    `unix://${w.engine.socket}`,
    'ps',
    '-q',
    '--filter',
    `label=dev.berth.environment=${w[target].environment.id}`,
  ]
  const [id = ''] = execFileSync('docker', argv, { encoding: 'utf8' }).split('\n')
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}} {{end}}'
  return execFileSync('docker', ['-H', `unix://${w.engine.socket}`, 'inspect', '-f', format, id], {
    encoding: 'utf8',
  }).trim()
}

const metadata = (where: 'mallory' | 'box', address: (typeof METADATA)[number]): Case => ({
  subject: 'ports',
  title: `${where === 'box' ? 'a container' : 'a manual process'} cannot reach ${address}`,
  isImportant: true,
  // the machine itself can
  control: () =>
    withAddress(address, () =>
      withListener(address, async (port) => {
        const host = address.includes(':') ? `[${address}]` : address
        const answer = await fetch(`http://${host}:${port}/`)
        must((await answer.text()).includes('crown'), 'the machine cannot reach it either')
      }),
    ),
  attack: (w) =>
    withAddress(address, () =>
      withListener(address, async (port) =>
        found((await from(w, where, CONNECT(address, port))).out, 'crown'),
      ),
    ),
})

export const PORTS: Case[] = [
  {
    subject: 'ports',
    title: 'a neighbour cannot open a service’s loopback port past its password',
    isImportant: true,
    control: guardedAnswers,
    async attack(w) {
      const port = await w.portOf(w.victim, 'web')
      for (const host of ['127.0.0.1', 'localhost', '::1', '127.0.0.2', '0.0.0.0']) {
        const { out } = await from(w, 'mallory', CONNECT(host, port))
        const got = found(out, /implant victim/)
        if (got) return `${host}: ${got}`
      }
      return undefined
    },
  },
  {
    subject: 'ports',
    title: 'a neighbour that takes the port of a crashed service gets no request',
    isImportant: true,
    control: guardedAnswers,
    async attack(w) {
      const port = await w.portOf(w.victim, 'web')
      const squat = `const take = () => { const s = require('http').createServer((q, r) => { require('fs').appendFileSync(process.env.HOME + '/stolen', JSON.stringify(q.headers) + '\\n'); r.end('stolen') }); s.on('error', () => setTimeout(take, 1)); s.listen(${port}, '0.0.0.0') }; take(); setTimeout(() => process.exit(), 15000)`
      const squatting = w.implant(
        w.mallory,
        `rm -f "$HOME/stolen"; (${w.fixture.node()} -e '${squat.replaceAll("'", `'"'"'`)}' & wait) `,
      )
      let got: string | undefined
      try {
        for (let crash = 0; crash < 3 && !got; crash += 1) {
          execFileSync('sh', [
            '-c',
            `for p in /proc/[0-9]*; do grep -qa "NAME=victim" $p/environ 2>/dev/null && grep -qa implant.cjs $p/cmdline 2>/dev/null && kill -9 \${p#/proc/}; done; true`,
          ])
          for (let n = 0; n < 60 && !got; n += 1) {
            const { text } = await w.visit(w.victim.host(), '/', {
              ...w.friend(),
              cookie: 'session=1',
            })
            got = found(text, 'stolen')
          }
        }
      } finally {
        await squatting
      }
      const { out } = await w.implant(w.mallory, 'cat "$HOME/stolen" 2>/dev/null; true')
      got ??= found(out, /session/)
      for (let n = 0; n < 400; n += 1) {
        if ((await w.visit(w.victim.host(), '/', w.friend())).text.includes('implant victim'))
          return got
        await new Promise((resolve) => setTimeout(resolve, 200))
      }
      return got ?? 'the service did not come back'
    },
  },
  {
    subject: 'ports',
    title: 'a container cannot open a manual service’s port',
    control: guardedAnswers,
    async attack(w) {
      const port = await w.portOf(w.victim, 'web')
      const [, gateway = ''] = containerAddress(w, 'box').split(' ')
      const { out } = await from(w, 'box', CONNECT(gateway, port))
      return found(out, /implant victim/)
    },
  },
  {
    subject: 'ports',
    title: 'a manual process cannot open a container’s port past its password',
    isImportant: true,
    control: async (w) => {
      const [address = ''] = containerAddress(w, 'vault').split(' ')
      const answer = await fetch(`http://${address}:8080/`)
      must(
        (await answer.text()).includes('implant vault'),
        'the container does not answer the machine',
      )
    },
    async attack(w) {
      const [address = ''] = containerAddress(w, 'vault').split(' ')
      return found((await from(w, 'mallory', CONNECT(address, 8_080))).out, /implant vault/)
    },
  },
  {
    subject: 'ports',
    title: 'a container cannot open another environment’s container',
    isImportant: true,
    control: async (w) => {
      const [address = ''] = containerAddress(w, 'box').split(' ')
      must(
        (await from(w, 'box', CONNECT(address, 8_080))).out.includes('implant box'),
        'not even its own',
      )
    },
    async attack(w) {
      execFileSync('sysctl', ['-qw', 'net.ipv4.ip_forward=1'])
      const [address = ''] = containerAddress(w, 'vault').split(' ')
      return found((await from(w, 'box', CONNECT(address, 8_080))).out, /implant vault/)
    },
  },
  {
    subject: 'ports',
    title:
      'the server’s own database on loopback is reached, and the administration of the proxy is not',
    control: (w) =>
      withListener('127.0.0.1', async (port) => {
        const { out } = await from(w, 'mallory', CONNECT('127.0.0.1', port))
        must(out.includes('crown jewels'), `a service of the server cannot be reached: ${out}`)
      }),
    async attack(w) {
      return found((await from(w, 'mallory', CONNECT('127.0.0.1', 2_019))).out, /got/)
    },
  },
  ...METADATA.map((address) => metadata('mallory', address)),
  metadata('box', '169.254.169.254'),
  metadata('box', '169.254.170.2'),
]
