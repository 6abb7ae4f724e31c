// How a server was doing: waits for the facts the agents report.
export function ServerCharts({ id }: { id: number }) {
  return <span hidden data-server={id} />
}
