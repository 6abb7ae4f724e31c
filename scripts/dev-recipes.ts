// Which recipes the server of `npm start` can run, for users: ready, or why not and what to do.
interface Server {
  recipes: string[]
  parts: { name: string; version: string | null; reason: string | null }[]
}

/** The parts that a recipe cannot do without, in the order in which they are named. */
const NEEDS = { docker: ['docker', 'git'], manual: ['git', 'users'] } as const

/** What to do about a part whose own reason does not say it. */
const ADVICE: Record<string, string> = {
  git: 'Install git.',
  users: 'Run npm start as root, or install useradd.',
}

export function describeRecipes({ recipes, parts }: Server): string[] {
  const find = (name: string) => parts.find((part) => part.name === name)
  const lines = (Object.keys(NEEDS) as (keyof typeof NEEDS)[]).map((recipe) => {
    if (recipes.includes(recipe)) return `${recipe}: ready`
    const missing = NEEDS[recipe].filter((name) => !find(name)?.version)
    const why = missing.map((name) => {
      const reason = find(name)?.reason ?? `${name} was not found.`
      return ADVICE[name] ? `${reason} ${ADVICE[name]}` : reason
    })
    return `${recipe}: not ready. ${why.join(' ')}`.trim()
  })
  const caddy = find('caddy')
  return caddy?.version ? lines : [...lines, `addresses: not ready. ${caddy?.reason ?? ''}`.trim()]
}
