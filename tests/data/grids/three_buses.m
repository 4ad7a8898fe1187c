%% A ring of three buses with quadratic costs and one tight line.
%% A case of our own, made for the tests of dual2; MATPOWER case format, version 2.
function mpc = three_buses
mpc.version = '2';
mpc.baseMVA = 100.0;

%	bus_i type Pd Qd Gs Bs area Vm Va baseKV zone Vmax Vmin
mpc.bus = [
	1	3	60	18	0	0	1	1	0	220	1	1.1	0.9;
	2	2	90	27	0	0	1	1	0	220	1	1.1	0.9;
	3	2	140	42	0	0	1	1	0	220	1	1.1	0.9;
];

%	bus Pg Qg Qmax Qmin Vg mBase status Pmax Pmin
mpc.gen = [
	1	0	0	50	-50	1	100	1	180	0;
	2	0	0	50	-50	1	100	1	240	0;
	3	0	0	50	-50	1	100	1	0	0;
];

%	2 startup shutdown n c2 c1 c0
mpc.gencost = [
	2	0	0	3	0.06	12	25;
	2	0	0	3	0.04	7	0;
	2	0	0	3	0	0	0;
];

%	fbus tbus r x b rateA rateB rateC ratio angle status angmin angmax
mpc.branch = [
	1	2	0.012	0.15	0.02	500	500	500	0	0	1	-30	30;
	1	3	0.02	0.24	0.02	500	500	500	0	0	1	-30	30;
	2	3	0.01	0.1	0.02	85	85	85	0	0	1	-30	30;
];
