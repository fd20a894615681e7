-- SPDX-License-Identifier: Apache-2.0
--
-- Samples of sandboxes, and what they used.
--
-- A node's samples are counters since the sandbox started there. They are
-- taken over once each (node, incarnation, number), whoever reads them and
-- however often. Usage is kept per sandbox and hour: time and allocated memory
-- from the rows' own times, so that missing samples cost nothing of it; CPU,
-- measured memory, disk and traffic from the samples. A step between two samples
-- counts for the hour of the later one.

SET LOCAL ROLE caisson_owner;

CREATE TABLE caisson.sample_marks (
	node        text PRIMARY KEY,
	incarnation text NOT NULL,
	after       bigint NOT NULL DEFAULT 0
);

CREATE TABLE caisson.sandbox_samples (
	sandbox      text NOT NULL
		REFERENCES caisson.sandboxes ON DELETE CASCADE,
	at           timestamptz NOT NULL,
	cpu_ms       bigint NOT NULL, -- since the sandbox was created
	memory_bytes bigint NOT NULL,
	disk_bytes   bigint NOT NULL,
	rx_bytes     bigint NOT NULL,
	tx_bytes     bigint NOT NULL,
	PRIMARY KEY (sandbox, at)
);
CREATE INDEX ON caisson.sandbox_samples (at);

-- Where a sandbox's accounts stand: the last raw counters, the sums, and up to
-- when its running time was billed (NULL: it does not run).
CREATE TABLE caisson.usage_marks (
	sandbox      text PRIMARY KEY
		REFERENCES caisson.sandboxes ON DELETE CASCADE,
	node         text,
	at           timestamptz,
	raw_cpu_ms   bigint NOT NULL DEFAULT 0,
	raw_rx_bytes bigint NOT NULL DEFAULT 0,
	raw_tx_bytes bigint NOT NULL DEFAULT 0,
	cpu_ms       bigint NOT NULL DEFAULT 0,
	rx_bytes     bigint NOT NULL DEFAULT 0,
	tx_bytes     bigint NOT NULL DEFAULT 0,
	memory_bytes bigint NOT NULL DEFAULT 0,
	disk_bytes   bigint NOT NULL DEFAULT 0,
	peak_memory_bytes bigint NOT NULL DEFAULT 0,
	billed_until timestamptz
);
CREATE INDEX ON caisson.usage_marks (billed_until)
	WHERE billed_until IS NOT NULL;

CREATE TABLE caisson.usage (
	tenant             text NOT NULL,
	project            text NOT NULL,
	sandbox            text NOT NULL,
	hour               timestamptz NOT NULL,
	labels             jsonb NOT NULL DEFAULT '{}',
	running_ms         bigint NOT NULL DEFAULT 0,
	memory_mib_ms      bigint NOT NULL DEFAULT 0, -- allocated
	memory_used_mib_ms bigint NOT NULL DEFAULT 0,
	cpu_ms             bigint NOT NULL DEFAULT 0,
	disk_mib_ms        bigint NOT NULL DEFAULT 0,
	egress_bytes       bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (sandbox, hour)
);
CREATE INDEX ON caisson.usage (tenant, hour);

CREATE FUNCTION caisson.usage_add(s caisson.sandboxes, p_hour timestamptz,
	p_running_ms bigint, p_memory_used bigint, p_cpu_ms bigint,
	p_disk bigint, p_egress bigint)
RETURNS void
LANGUAGE sql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	INSERT INTO caisson.usage AS u (tenant, project, sandbox, hour, labels,
		running_ms, memory_mib_ms, memory_used_mib_ms, cpu_ms,
		disk_mib_ms, egress_bytes)
	VALUES (s.tenant, s.project, s.id, date_trunc('hour', p_hour, 'UTC'),
		s.labels, p_running_ms, p_running_ms * s.memory_mib,
		p_memory_used, p_cpu_ms, p_disk, p_egress)
	ON CONFLICT (sandbox, hour) DO UPDATE SET labels = excluded.labels,
		running_ms = u.running_ms + excluded.running_ms,
		memory_mib_ms = u.memory_mib_ms + excluded.memory_mib_ms,
		memory_used_mib_ms = u.memory_used_mib_ms
			+ excluded.memory_used_mib_ms,
		cpu_ms = u.cpu_ms + excluded.cpu_ms,
		disk_mib_ms = u.disk_mib_ms + excluded.disk_mib_ms,
		egress_bytes = u.egress_bytes + excluded.egress_bytes
$$;
REVOKE ALL ON FUNCTION caisson.usage_add FROM PUBLIC;

-- Running time from p_from to p_to, split at the hours.
CREATE FUNCTION caisson.usage_bill_span(s caisson.sandboxes,
	p_from timestamptz, p_to timestamptz)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	v_at timestamptz := p_from;
	v_next timestamptz;
BEGIN
	WHILE v_at < p_to LOOP
		v_next := least(p_to, date_trunc('hour', v_at, 'UTC')
			+ interval '1 hour');
		PERFORM caisson.usage_add(s, v_at, (extract(epoch FROM
			v_next - v_at) * 1000)::bigint, 0, 0, 0, 0);
		v_at := v_next;
	END LOOP;
END $$;
REVOKE ALL ON FUNCTION caisson.usage_bill_span FROM PUBLIC;

CREATE FUNCTION caisson.last_usage(p_sandbox text) RETURNS jsonb
LANGUAGE sql STABLE AS $$
	SELECT jsonb_build_object('cpu_ms', m.cpu_ms,
		'memory_bytes', m.memory_bytes,
		'peak_memory_bytes', m.peak_memory_bytes,
		'disk_bytes', m.disk_bytes, 'net_rx_bytes', m.rx_bytes,
		'net_tx_bytes', m.tx_bytes, 'at', caisson.ts(m.at))
	FROM caisson.usage_marks m
	WHERE m.sandbox = p_sandbox AND m.at IS NOT NULL
$$;

-- Time runs while a sandbox is observed running. When it ends, the newest
-- sample becomes its last usage unless the change brings a better one.
CREATE FUNCTION caisson.usage_state() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	m caisson.usage_marks;
BEGIN
	IF NEW.observed = 'running' THEN
		INSERT INTO caisson.usage_marks AS x (sandbox, billed_until)
		VALUES (NEW.id, now())
		ON CONFLICT (sandbox) DO UPDATE
			SET billed_until = coalesce(x.billed_until, now());
		RETURN NEW;
	END IF;
	SELECT * INTO m FROM caisson.usage_marks x
		WHERE x.sandbox = NEW.id FOR UPDATE;
	IF m.billed_until IS NOT NULL THEN
		PERFORM caisson.usage_bill_span(NEW, m.billed_until, now());
		UPDATE caisson.usage_marks x SET billed_until = NULL
			WHERE x.sandbox = NEW.id;
	END IF;
	IF caisson.is_final(NEW.observed) THEN
		NEW.last_usage := coalesce(NEW.last_usage,
			caisson.last_usage(NEW.id));
	END IF;
	RETURN NEW;
END $$;
CREATE TRIGGER usage_state BEFORE UPDATE ON caisson.sandboxes
	FOR EACH ROW WHEN (OLD.observed <> NEW.observed)
	EXECUTE FUNCTION caisson.usage_state();

-- Bring the running time of those up to date that were last billed more than
-- p_every_s ago. Returns how many.
CREATE FUNCTION caisson.usage_bill(p_every_s integer, p_limit integer)
RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	m caisson.usage_marks;
	s caisson.sandboxes;
	n integer := 0;
BEGIN
	FOR m IN SELECT * FROM caisson.usage_marks x
		WHERE x.billed_until < now() - p_every_s * interval '1 second'
		ORDER BY x.billed_until LIMIT p_limit FOR UPDATE SKIP LOCKED
	LOOP
		SELECT * INTO s FROM caisson.sandboxes x WHERE x.id = m.sandbox;
		PERFORM caisson.usage_bill_span(s, m.billed_until, now());
		UPDATE caisson.usage_marks x SET billed_until = now()
			WHERE x.sandbox = m.sandbox;
		n := n + 1;
	END LOOP;
	RETURN n;
END $$;

-- One sample of sandbox s. A counter that fell has begun anew. A gap of more
-- than a minute is not filled with what was measured at its end.
CREATE FUNCTION caisson.sample_put(s caisson.sandboxes, p_node text,
	p_at timestamptz, p_cpu_ms bigint, p_memory bigint, p_disk bigint,
	p_rx bigint, p_tx bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	m caisson.usage_marks;
	v_cpu bigint;
	v_rx bigint;
	v_tx bigint;
	v_ms bigint;
BEGIN
	INSERT INTO caisson.usage_marks (sandbox) VALUES (s.id)
		ON CONFLICT DO NOTHING;
	SELECT * INTO m FROM caisson.usage_marks x
		WHERE x.sandbox = s.id FOR UPDATE;
	IF m.at >= p_at THEN
		RETURN;
	END IF;
	v_cpu := p_cpu_ms - CASE WHEN m.node = p_node
		AND p_cpu_ms >= m.raw_cpu_ms THEN m.raw_cpu_ms ELSE 0 END;
	v_rx := p_rx - CASE WHEN m.node = p_node
		AND p_rx >= m.raw_rx_bytes THEN m.raw_rx_bytes ELSE 0 END;
	v_tx := p_tx - CASE WHEN m.node = p_node
		AND p_tx >= m.raw_tx_bytes THEN m.raw_tx_bytes ELSE 0 END;
	v_ms := least(60000, coalesce(extract(epoch FROM p_at - m.at) * 1000,
		0))::bigint;
	UPDATE caisson.usage_marks x SET node = p_node, at = p_at,
		raw_cpu_ms = p_cpu_ms, raw_rx_bytes = p_rx,
		raw_tx_bytes = p_tx, cpu_ms = x.cpu_ms + v_cpu,
		rx_bytes = x.rx_bytes + v_rx, tx_bytes = x.tx_bytes + v_tx,
		memory_bytes = p_memory, disk_bytes = p_disk,
		peak_memory_bytes = greatest(x.peak_memory_bytes, p_memory)
		WHERE x.sandbox = s.id RETURNING * INTO m;
	PERFORM caisson.usage_add(s, p_at, 0, p_memory / 1048576 * v_ms,
		v_cpu, p_disk / 1048576 * v_ms, v_tx);
	INSERT INTO caisson.sandbox_samples (sandbox, at, cpu_ms,
		memory_bytes, disk_bytes, rx_bytes, tx_bytes)
	VALUES (s.id, p_at, m.cpu_ms, p_memory, p_disk, m.rx_bytes, m.tx_bytes)
	ON CONFLICT DO NOTHING;
END $$;
REVOKE ALL ON FUNCTION caisson.sample_put FROM PUBLIC;

-- A page of GET /v1/samples as it came. What was taken over already, what is
-- of sandboxes that are not on this node, and what is not of the form of a
-- sample is left out. Returns the number to go on after.
CREATE FUNCTION caisson.samples_put(p_node text, p_incarnation text,
	p_next bigint, p_items jsonb)
RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	k caisson.sample_marks;
	i record;
	s caisson.sandboxes;
BEGIN
	PERFORM set_config('synchronous_commit', 'off', true);
	INSERT INTO caisson.sample_marks (node, incarnation)
		VALUES (p_node, p_incarnation) ON CONFLICT DO NOTHING;
	SELECT * INTO k FROM caisson.sample_marks x
		WHERE x.node = p_node FOR UPDATE;
	IF k.incarnation <> p_incarnation THEN
		k.after := 0;
	END IF;
	FOR i IN SELECT * FROM jsonb_to_recordset(p_items) AS r(seq bigint,
			at timestamptz, sandbox text, cpu_ms bigint,
			memory_bytes bigint, disk_bytes bigint,
			net_rx_bytes bigint, net_tx_bytes bigint)
		WHERE r.seq > k.after AND r.at IS NOT NULL
		  AND r.at <= now() + interval '1 minute'
		  AND least(r.cpu_ms, r.memory_bytes, r.disk_bytes,
			r.net_rx_bytes, r.net_tx_bytes) >= 0
		ORDER BY r.seq
	LOOP
		SELECT * INTO s FROM caisson.sandboxes x
			WHERE x.id = i.sandbox AND x.node = p_node;
		CONTINUE WHEN NOT FOUND;
		PERFORM caisson.sample_put(s, p_node, i.at,
			coalesce(i.cpu_ms, 0), coalesce(i.memory_bytes, 0),
			coalesce(i.disk_bytes, 0), coalesce(i.net_rx_bytes, 0),
			coalesce(i.net_tx_bytes, 0));
	END LOOP;
	UPDATE caisson.sample_marks x SET incarnation = p_incarnation,
		after = greatest(k.after, p_next) WHERE x.node = p_node;
	RETURN greatest(k.after, p_next);
END $$;

-- Where to go on reading a node's samples.
CREATE FUNCTION caisson.samples_after(p_node text, p_incarnation text)
RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
	SELECT coalesce((SELECT k.after FROM caisson.sample_marks k
		WHERE k.node = p_node AND k.incarnation = p_incarnation), 0)
$$;

-- What a node said at a sandbox's end counts like a sample taken then.
CREATE FUNCTION caisson.sample_last(p_node text, p_sandbox text, p jsonb)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	s caisson.sandboxes;
BEGIN
	IF p IS NULL THEN
		RETURN;
	END IF;
	SELECT * INTO s FROM caisson.sandboxes x
		WHERE x.id = p_sandbox AND x.node = p_node
		  AND NOT caisson.is_final(x.observed);
	IF FOUND THEN
		PERFORM caisson.sample_put(s, p_node, clock_timestamp(),
			coalesce((p ->> 'cpu_ms')::bigint, 0),
			coalesce((p ->> 'memory_bytes')::bigint, 0),
			coalesce((p ->> 'disk_bytes')::bigint, 0),
			coalesce((p ->> 'net_rx_bytes')::bigint, 0),
			coalesce((p ->> 'net_tx_bytes')::bigint, 0));
	END IF;
END $$;

-- Full samples for 24 h, one per minute for 7 days. Returns how many went.
CREATE FUNCTION caisson.samples_gc(p_limit integer) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = caisson, pg_temp AS $$
DECLARE
	n integer;
	total integer;
BEGIN
	DELETE FROM caisson.sandbox_samples x WHERE x.ctid IN (
		SELECT y.ctid FROM caisson.sandbox_samples y
		WHERE y.at < now() - interval '7 days' LIMIT p_limit);
	GET DIAGNOSTICS total = ROW_COUNT;
	-- the last one of its minute stays; what lies between 24 and 26 hours
	-- back is looked at, the older was folded before
	DELETE FROM caisson.sandbox_samples x WHERE x.ctid IN (
		SELECT y.ctid FROM caisson.sandbox_samples y
		WHERE y.at < now() - interval '24 hours'
		  AND y.at > now() - interval '26 hours'
		  AND EXISTS (SELECT FROM caisson.sandbox_samples z
			WHERE z.sandbox = y.sandbox AND z.at > y.at
			  AND z.at < date_trunc('minute', y.at)
				+ interval '1 minute')
		LIMIT p_limit);
	GET DIAGNOSTICS n = ROW_COUNT;
	total := total + n;
	DELETE FROM caisson.usage u WHERE u.ctid IN (
		SELECT x.ctid FROM caisson.usage x
		WHERE x.hour < now() - interval '400 days' LIMIT p_limit);
	GET DIAGNOSTICS n = ROW_COUNT;
	RETURN total + n;
END $$;

REVOKE ALL ON FUNCTION caisson.samples_put, caisson.samples_after,
	caisson.sample_last, caisson.samples_gc, caisson.usage_bill,
	caisson.events_gc, caisson.audit_gc, caisson.audit_chain,
	caisson.audit_check, caisson.sandbox_expiring, caisson.node_silent
	FROM PUBLIC;
GRANT EXECUTE ON FUNCTION caisson.samples_put, caisson.samples_after,
	caisson.sample_last, caisson.samples_gc, caisson.usage_bill,
	caisson.events_gc, caisson.audit_gc, caisson.audit_chain,
	caisson.audit_check, caisson.sandbox_expiring, caisson.node_silent
	TO caisson_controller;

-- ---- what the API calls ----

-- Whole hours that overlap [p_from, p_to), summed. p_project NULL: the whole
-- tenant. p_group: project, sandbox, or label with p_label the key.
CREATE FUNCTION caisson.usage_report(p_tenant text, p_project text,
	p_from timestamptz, p_to timestamptz, p_group text, p_label text,
	p_limit integer)
RETURNS json
LANGUAGE plpgsql AS $$
BEGIN
	PERFORM caisson.scope(p_tenant);
	RETURN json_build_object('from', caisson.ts(p_from),
		'to', caisson.ts(p_to), 'items', (SELECT coalesce(
			json_agg(json_build_object('group', g.key,
			'sandboxes', g.n, 'running_s', g.running / 1000.0,
			'cpu_s', g.cpu / 1000.0,
			'memory_mib_s', g.memory / 1000.0,
			'memory_used_mib_s', g.used / 1000.0,
			'disk_mib_s', g.disk / 1000.0,
			'egress_bytes', g.egress) ORDER BY g.key), '[]')
		FROM (SELECT CASE p_group WHEN 'project' THEN u.project
				WHEN 'sandbox' THEN u.sandbox
				ELSE u.labels ->> p_label END AS key,
			count(DISTINCT u.sandbox) AS n,
			sum(u.running_ms) AS running, sum(u.cpu_ms) AS cpu,
			sum(u.memory_mib_ms) AS memory,
			sum(u.memory_used_mib_ms) AS used,
			sum(u.disk_mib_ms) AS disk,
			sum(u.egress_bytes) AS egress
			FROM caisson.usage u
			WHERE u.tenant = p_tenant
			  AND (p_project IS NULL OR u.project = p_project)
			  AND u.hour > p_from - interval '1 hour'
			  AND u.hour < p_to
			GROUP BY 1 ORDER BY 1 LIMIT p_limit) g));
END $$;

-- Steps of p_step_s from p_from to p_to; CPU and traffic are what a step used,
-- memory and disk its largest sample. NULL: no such sandbox.
CREATE FUNCTION caisson.metrics_series(p_tenant text, p_project text,
	p_ref text, p_from timestamptz, p_to timestamptz, p_step_s integer)
RETURNS json
LANGUAGE plpgsql AS $$
DECLARE
	s caisson.sandboxes;
BEGIN
	PERFORM caisson.scope(p_tenant);
	s := caisson.sandbox_find(p_project, p_ref);
	IF s.id IS NULL THEN
		RETURN NULL;
	END IF;
	RETURN json_build_object('sandbox', s.id, 'from', caisson.ts(p_from),
		'to', caisson.ts(p_to), 'step_s', p_step_s,
		'current', coalesce(caisson.last_usage(s.id), s.last_usage),
		'items', (SELECT coalesce(json_agg(json_build_object(
			'at', caisson.ts(b.at), 'cpu_ms', b.cpu,
			'cpu_pct', CASE WHEN b.ms > 0
				THEN round(b.cpu * 100.0 / b.ms, 1) END,
			'memory_bytes', b.memory, 'disk_bytes', b.disk,
			'net_rx_bytes', b.rx, 'net_tx_bytes', b.tx)
			ORDER BY b.at), '[]')
		FROM (SELECT date_bin(p_step_s * interval '1 second', d.at,
				p_from) AS at,
			sum(d.cpu) AS cpu, sum(d.ms) AS ms,
			max(d.memory_bytes) AS memory,
			max(d.disk_bytes) AS disk,
			sum(d.rx) AS rx, sum(d.tx) AS tx
			FROM (SELECT x.at, x.memory_bytes, x.disk_bytes,
				x.cpu_ms - lag(x.cpu_ms) OVER w AS cpu,
				x.rx_bytes - lag(x.rx_bytes) OVER w AS rx,
				x.tx_bytes - lag(x.tx_bytes) OVER w AS tx,
				extract(epoch FROM x.at - lag(x.at) OVER w)
					* 1000 AS ms
				FROM caisson.sandbox_samples x
				WHERE x.sandbox = s.id AND x.at < p_to
				  AND x.at >= p_from - interval '2 minutes'
				WINDOW w AS (ORDER BY x.at)) d
			WHERE d.at >= p_from GROUP BY 1) b));
END $$;

ALTER TABLE caisson.usage ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.usage_marks ENABLE ROW LEVEL SECURITY;
ALTER TABLE caisson.sandbox_samples ENABLE ROW LEVEL SECURITY;
CREATE POLICY api ON caisson.usage FOR SELECT TO caisson_api
	USING (tenant = current_setting('caisson.tenant', true));
CREATE POLICY api ON caisson.usage_marks FOR SELECT TO caisson_api
	USING (EXISTS (SELECT FROM caisson.sandboxes s WHERE s.id = sandbox));
CREATE POLICY api ON caisson.sandbox_samples FOR SELECT TO caisson_api
	USING (EXISTS (SELECT FROM caisson.sandboxes s WHERE s.id = sandbox));
GRANT SELECT ON caisson.usage, caisson.usage_marks, caisson.sandbox_samples
	TO caisson_api;

RESET ROLE;
