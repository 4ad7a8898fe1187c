%% Five buses, linear costs, two areas; one line is full.
%% A case of our own, made for the tests of dual2; MATPOWER case format, version 2.
function mpc = five_buses
mpc.version = '2';
mpc.baseMVA = 100.0;

%	bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin
mpc.bus = [
	1	3	40	12	0	0	1	1	0	220	1	1.1	0.9;
	2	1	210	63	0	0	1	1	0	220	1	1.1	0.9;
	3	2	150	45	0	0	1	1	0	220	1	1.1	0.9;
	4	1	260	78	0	0	2	1	0	220	2	1.1	0.9;
	5	2	0	0	0	0	2	1	0	220	2	1.1	0.9;
];

%	bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin
mpc.gen = [
	1	0	0	50	-50	1	100	1	120	0;
	3	0	0	50	-50	1	100	1	90	0;
	3	0	0	50	-50	1	100	1	180	0;
	5	0	0	50	-50	1	100	1	240	0;
	5	0	0	50	-50	1	100	1	350	0;
];

%	2 startup shutdown n c2 c1 c0
mpc.gencost = [
	2	0	0	3	0	28	0;
	2	0	0	3	0	19	0;
	2	0	0	3	0	36	0;
	2	0	0	3	0	22	0;
	2	0	0	3	0	13	0;
];

%	fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax
mpc.branch = [
	1	2	0.004	0.04	0.02	250	250	250	0	0	1	-30	30;
	2	3	0.003	0.025	0.02	250	250	250	0	0	1	-30	30;
	3	4	0.005	0.045	0.02	250	250	250	0	0	1	-30	30;
	4	5	0.002	0.02	0.02	300	300	300	0	0	1	-30	30;
	5	1	0.004	0.036	0.02	250	250	250	0	0	1	-30	30;
	2	5	0.003	0.03	0.02	170	170	170	0	0	1	-30	30;
];
