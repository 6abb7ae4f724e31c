// How a new server gets its agent: a script that is checked against the digest in the join command, and a package whose
// digest is in the script. A person gets the client the same way. Only files that exist are offered.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { TestControlPlane } from '../fixtures/platform/control-plane.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const sha256 = (data: string | Buffer): string => createHash('sha256').update(data).digest('hex')

describe('without a packaged agent', () => {
  let plane: TestControlPlane
  beforeAll(async () => {
    plane = await TestControlPlane.start('sqlite')
    await plane.setUp()
  })
  afterAll(() => plane.close())

  test('there is no script, and the join command is that of an agent that is there', async () => {
    const answer = await plane.call<{ detail: string }>('GET', '/install.sh')
    expect(answer.status).toBe(404)
    expect(answer.body.detail).toContain('npm run bundle')
    const { id } = await plane.server()
    const made = await plane.make<{ command: string }>(`/api/servers/${id}/join_token`)
    expect(made.command).toMatch(/^echo berth_join_\S+ \| berth-agent join http\S+$/)
  })
})

describe('without a bundled client', () => {
  test.each(['/install-cli.sh', '/cli/berth.cjs', '/cli/SHA256SUMS'])(
    '%s says what is missing',
    async (path) => {
      const plane = await TestControlPlane.start('sqlite')
      try {
        const answer = await plane.call<{ detail: string }>('GET', path)
        expect(answer.status).toBe(404)
        expect(answer.body.detail).toContain('This control plane has no client to offer.')
      } finally {
        await plane.close()
      }
    },
  )
})

describe('with packaged agents', () => {
  const folder = mkdtempSync(join(tmpdir(), 'berth-packages-'))
  const x64 = Buffer.from('the agent for x64')
  const client = '#!/usr/bin/env node\n'
  let plane: TestControlPlane
  beforeAll(async () => {
    mkdirSync(folder, { recursive: true })
    writeFileSync(join(folder, 'berth-agent-linux-x64.tar.gz'), x64)
    writeFileSync(join(folder, 'berth-agent-linux-arm64.tar.gz'), 'the agent for arm64')
    writeFileSync(join(folder, 'berth.cjs'), client)
    writeFileSync(join(folder, 'secret.txt'), 'not to be offered')
    plane = await TestControlPlane.start('sqlite', { env: { BERTH_AGENT_PACKAGES: folder } })
    await plane.setUp()
  })
  afterAll(async () => {
    await plane.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('the join command checks the script that is served, the script checks the package', async () => {
    const { id } = await plane.server()
    const made = await plane.make<{ command: string; token: string }>(
      `/api/servers/${id}/join_token`,
    )
    const script = await plane.call('GET', '/install.sh')
    expect(script.status).toBe(200)
    expect(made.command).toContain(`echo "${sha256(script.text)}  install.sh" | sha256sum -c`)
    expect(made.command).toContain(`echo ${made.token} | sh install.sh --token-file -`)
    expect(script.text).toContain(sha256(x64))
    expect(script.text).not.toContain(made.token)
    // before the daemon starts: Caddy never runs as root
    expect(script.text).toMatch(
      /"\$agent" setup proxy-account\b[\s\S]*systemctl restart berth-agent/,
    )
    execFileSync('sh', ['-n'], { input: script.text })
    const file = await plane.call('GET', '/install/berth-agent-linux-x64.tar.gz')
    expect([file.status, file.text]).toEqual([200, x64.toString()])
    expect(file.headers.get('content-length')).toBe(String(x64.length))
  })

  test('the unit takes from the agent what its work never needs, and gives it no mounts of its own', async () => {
    const { text } = await plane.call('GET', '/install.sh')
    const unit = /<<'UNIT'\n([\s\S]*?)\nUNIT\n/.exec(text)?.[1] ?? ''
    const lines = unit.split('\n').filter((line) => !line.startsWith('#'))
    const found = (name: string): string | undefined =>
      lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1)
    for (const right of ['CAP_SYS_MODULE', 'CAP_SYS_RAWIO', 'CAP_SYS_TIME', 'CAP_SYSLOG']) {
      expect(found('CapabilityBoundingSet')).toMatch(new RegExp(`^~(.* )?${right}\\b`))
    }
    expect(found('SystemCallFilter')).toMatch(/^~@clock .*@module .*@reboot/)
    expect(found('RestrictAddressFamilies')).toBe('AF_UNIX AF_INET AF_INET6 AF_NETLINK')
    for (const name of ['LockPersonality', 'RestrictRealtime']) expect(found(name)).toBe('yes')
    expect(found('UMask')).toBe('0022')
    // deployments outlive the daemon, and a new daemon must see the same mounts
    const own = /^(Protect|Private|ReadWritePaths|TemporaryFileSystem|BindPaths|RootDirectory)/
    expect(lines.filter((line) => own.test(line))).toEqual([])
    expect(text).toMatch(/^umask 022$/m)
  })

  test('a package that was replaced has its new digest at once', async () => {
    const path = join(folder, 'berth-agent-linux-arm64.tar.gz')
    writeFileSync(path, 'another agent for arm64')
    const script = await plane.call('GET', '/install.sh')
    expect(script.text).toContain(sha256('another agent for arm64'))
  })

  test.each(['secret.txt', '..%2fsecret.txt', 'berth-agent-linux-mips.tar.gz'])(
    'nothing but packages is offered: %s',
    async (name) => {
      const answer = await plane.call('GET', `/install/${name}`)
      expect(answer.status).toBe(404)
      expect(answer.text).not.toContain('not to be offered')
    },
  )
  test("the client's script checks the client, and Node.js where there is none", async () => {
    const script = await plane.call('GET', '/install-cli.sh')
    expect(script.status).toBe(200)
    expect(script.headers.get('content-type')).toBe('text/x-shellscript; charset=utf-8')
    execFileSync('sh', ['-n'], { input: script.text })
    const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
    expect(script.text).toContain(`version='${version}'`)
    for (const digest of [sha256(client), sha256(x64)]) expect(script.text).toContain(`'${digest}'`)
    expect(script.text.trimEnd().split('\n').at(-1)).toBe('main "$@"')
    const file = await plane.call('GET', '/cli/berth.cjs')
    expect([file.status, file.text]).toEqual([200, client])
    expect(file.headers.get('content-disposition')).toBe('attachment; filename="berth.cjs"')
    const sums = await plane.call('GET', '/cli/SHA256SUMS')
    expect(sums.text).toBe(`${sha256(client)}  berth.cjs\n`)
  })

  test.each([
    'secret.txt',
    '..%2fsecret.txt',
    '%2e%2e%2fberth.cjs',
    'berth-agent-linux-x64.tar.gz',
  ])('nothing but the client is offered as one: %s', async (name) => {
    const answer = await plane.call<{ detail: string }>('GET', `/cli/${name}`)
    expect([answer.status, answer.body.detail]).toEqual([404, 'There is no such package here.'])
  })
})
