// Who may use which hostname. A name has one owner; all names below a project's domain belong to that project. The
// control plane's own name and the names below it are reserved, because a page there could set its cookies.

const isBelow = (host: string, domain: string): boolean => host.endsWith(`.${domain}`)

export const isAtOrBelow = (host: string, domain: string): boolean =>
  host === domain || isBelow(host, domain)

/** shop.eu.example.com → eu.example.com, example.com. The last label alone cannot be claimed. */
export function parentDomains(host: string): string[] {
  const labels = host.split('.')
  return labels.slice(1, -1).map((_, i) => labels.slice(i + 1).join('.'))
}

export const isReserved = (host: string, ownHost: string): boolean => isAtOrBelow(host, ownHost)

/** A name outside the project's own domain, if the installation requires a list of such names. */
export const isUnlisted = (
  host: string,
  project: { domain: string; customDomains: readonly string[] },
): boolean =>
  !isAtOrBelow(host, project.domain) && !project.customDomains.some((d) => isAtOrBelow(host, d))
